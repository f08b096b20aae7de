-- What every script begins with: the glossary of keys, the clock, and how to give up.
--
-- Where things are. scripts/ has one file for each script: an operation of the store, with its contract at the top. The files beside
-- this one are what scripts include, and each includes what it needs itself, once:
--
--   by step     put take settle admission lanes relations queues sessions schedules find history stats sweep wait
--   records     job (the bytes of a record), plan (what a script is going to write), commit (writes it), plain (plain jobs: the
--               short way through an exchange), checks (what requests may say), settings
--   parts       arrivals (all jobs in order), culprits and links (of relations), expiry (of admission), closing (of sessions),
--               patterns (of queues), sorted (of lanes
--               and relations), take_singly (of take), migration
--
-- All keys begin with the tag {ns}, so that on a cluster they live in one slot.
--
--   {ns}:meta             hash    format (2), jobs (the last arrival number), sessions (the last session number), swept (when
--                                 the store was), results (until when those of done jobs have been dropped), histograms
--                                 (until which day), flattened (of how many queues on the next), kept<digit of the state>
--                                 (how many of the oldest are past keeping, but needed; see history.lua), surplus (likewise, of
--                                 done jobs beyond the number to keep, the last that stayed), ended_bytes (about what ended jobs take), history_memory (what
--                                 they may take), purged_early and purged_early_at (how many failed jobs were purged before
--                                 their age, and when), and <digit of the state><queue> -> how many jobs;
--                                 zeros are left out
--   {ns}:job              hash    job id -> record (see job.lua)
--   {ns}:row:<queue>      list    the ready jobs of a queue that came in order and without a priority: due(6) arrival(6) id.
--                                 Entries of jobs that were cancelled or deleted may be left, and are skipped
--   {ns}:line:<queue>     zset    all other ready jobs of a queue: score -priority, member due(6) arrival(6) id
--   {ns}:ready_queues     zset    the queues that have ready jobs, all with score 0: in order of name
--   {ns}:due:<queue>      zset    the scheduled jobs of a queue: score due, member arrival(6) id
--   {ns}:due_queues       zset    the queues that have scheduled jobs: score when the first of them falls due
--   {ns}:done             zset    what retention looks at: score finished, member id; likewise
--   {ns}:failed           zset    and
--   {ns}:cancelled        zset
--   {ns}:block:<n>        list    ids of the jobs that came with the arrival numbers of a block, in this order (see arrivals.lua)
--   {ns}:arrivals         zset    the blocks that there are: score and member their numbers
--   {ns}:holes            hash    block -> how many of its jobs are gone
--   {ns}:sparse           set     blocks that have few of their jobs left
--   {ns}:state:<state>    zset    the blocked, failed or cancelled jobs: score arrival, member id
--   {ns}:large            hash    <b, d, r or e>:<job id> -> body, data, result or error too large for the record
--   {ns}:more             hash    job id -> what only some jobs have (see plan.lua)
--   {ns}:after            hash    job id -> the jobs that it comes after (see plan.lua)
--   {ns}:tag:<tag>        zset    the jobs with a tag: score arrival, member id; likewise
--   {ns}:group:<group>    zset    the failed jobs of a group,
--   {ns}:tracked          zset    the jobs that somebody keeps an eye on, and
--   {ns}:schedule:<name>  zset    the jobs of a schedule
--   {ns}:tags             zset    the tags: score how many jobs have it, negative; likewise
--   {ns}:groups           zset    the groups that have failed jobs
--   {ns}:schedules        hash    name of a schedule -> record (see schedules.lua)
--   {ns}:schedule_names   zset    their names, all with score 0: in order
--   {ns}:ticks            zset    when each ticks next: score that time, member name. Not those that are paused
--   {ns}:expiring         zset    jobs that wait and are to start in time: score when they fail, member id (see expiry.lua)
--   {ns}:unmet:<id>       set     ids of the jobs that a job waits for
--   {ns}:dependents:<arrival>:<n>  zset  jobs that wait for the job with this arrival number and come to an end, or go
--                                 on, when it fails: score arrival, member f or r and id. n grows with every failure of it
--   {ns}:patient:<arrival>  zset  likewise those that go on waiting when it fails: w and id
--   {ns}:followers:<arrival>  zset  the jobs that name the one with this arrival number among those they come after: score
--                                 arrival, member id. Some that have ended may be left
--   {ns}:links:<id>       list    parents that a job has not been linked with yet (see links.lua)
--   {ns}:releasing        list    ended and removed jobs whose dependents still wait (see relations.lua), and jobs with {ns}:links:
--   {ns}:lanes            hash    lane -> its limits, and who stands at its front (see lanes.lua)
--   {ns}:lane:<lane>      zset    jobs that wait for their turn in a lane: score and member as in a line
--   {ns}:runs:<lane>      zset    the jobs of a lane that run: score arrival, member id
--   {ns}:starts:<lane>    list    when the last jobs of a lane with a rate were started
--   {ns}:fading           zset    lanes that have no jobs but a rate: score until when it has something to remember
--   {ns}:control          hash    p<queue> -> who paused it, and when; l<queue> -> how many of its jobs may run at once
--   {ns}:names:<digest>   zset    a list of queues: score its place in it (see scripts/names.lua)
--   {ns}:patterns         zset    patterns, and lists, that hungry sessions listen to: score since when
--   {ns}:stat:<day>:<queue> hash  what happened in a queue on a day (see stats.lua)
--   {ns}:stats            zset    these days and queues: score day
--   {ns}:settings         hash    what has been set: name -> value
--   {ns}:unique           hash    unique key -> until(8) id of the job that has it
--   {ns}:history:<id>     list    what happened to a job that had more of a life than put, run, done
--   {ns}:sessions         zset    the open sessions: score number, member session id
--   {ns}:expiries         zset    when to look whether one has expired: score that time, member session id (see sessions.lua)
--   {ns}:session:<id>     hash    a session; closed ones stay for a day as tombstones
--   {ns}:held:<session>   set     the ids of the jobs that it runs or holds ready
--   {ns}:hungry:<queue>   zset    sessions with a free slot and nothing to put in it: score since when. Also of a pattern
--   {ns}:bell:<session>   list    what a session is blocked on that waits and takes in one: an entry rings
--   {ns}:watched          zset    jobs whose end somebody waits for: score until when
--   {ns}:staged:<batch>, {ns}:batch:<batch>, {ns}:arriving   batches that come in parts (see put.lua)
--   {ns}:events           stream  what happened (see below); there only while somebody listens
--
-- and two kinds of channels: {ns}:wake:<session>, {ns}:ended:<job id>.
--
-- States, flags, formats, limits and sentences that Python has, too, are declared in layout.py: their names are replaced by their
-- values before a script is sent, as are those of constants.
--
-- KEYS are the keys whose names are known beforehand, in this order. ARGV[1] is empty, or a test's clock.
local JOB, META, DUE, LARGE, UNIQUE, SESSIONS, WATCHED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local PREFIX = JOB:sub(1, -4)
local READY_QUEUES = PREFIX .. 'ready_queues'
local ARRIVALS, CONTROL, TICKS = PREFIX .. 'arrivals', PREFIX .. 'control', PREFIX .. 'ticks'
local BLOCK = 256

local ENDED = { [DONE] = KEYS[8], [FAILED] = KEYS[9], [CANCELLED] = KEYS[10] }

local call = redis.call
local pack, unpack_from = struct.pack, struct.unpack
local band, bor, bnot = bit.band, bit.bor, bit.bnot

local now, steady
if ARGV[1] == '' then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  steady = now
else
  now, steady = unpack_from('>dd', ARGV[1])
end

-- Nothing has been written when this is called: all checks come before the first write.
local function fail(kind, text)
  error('HEADRACE ' .. kind .. ' ' .. text .. ' .', 0)
end

-- A job's record cannot be read. The store sets that job aside (see scripts/set_aside.lua) and asks again: what is known of it, where it
-- was met, goes along. As hexadecimal digits: an id may be any bytes.
local function fail_damaged(id, queue, arrival)
  local function digits(bytes)
    return (bytes:gsub('.', function(byte)
      return string.format('%02x', byte:byte())
    end))
  end
  fail('DAMAGED', digits(id) .. ',' .. digits(queue or '') .. ',' .. (arrival and string.format('%.0f', arrival) or ''))
end

-- Keys that are known not to be there. Who has looked for several at once need not ask for each.
local absent = {}

-- Asked once: nothing changes before the first write.
local types = {}

local function check_type(key, wanted)
  local found = types[key] or absent[key] and 'none' or call('TYPE', key).ok
  types[key] = found
  if found ~= wanted and found ~= 'none' then
    fail('CORRUPT', key .. ' is a ' .. found .. ', not a ' .. wanted)
  end
  return found ~= 'none'
end

-- A table that is filled when somebody looks into it: what only some jobs need costs the others nothing.
local makers = {}

local function on_demand(name)
  return setmetatable({}, {
    __index = function(made, field)
      setmetatable(made, nil)
      makers[name]()
      return made[field]
    end,
  })
end

-- A command with many arguments, in pieces: Lua cannot pass more than 8,000 at once.
local function bulk(command, key, values)
  local n = #values
  for first = 1, n, 4000 do
    call(command, key, unpack(values, first, math.min(first + 3999, n)))
  end
end

-- The same for reading: the answers in one list.
local function read_many(command, key, names)
  local n = #names
  if n == 0 then
    return {}
  end
  if n <= 4000 then
    return call(command, key, unpack(names))
  end
  local found = {}
  for first = 1, n, 4000 do
    local last = math.min(first + 3999, n)
    local piece = call(command, key, unpack(names, first, last))
    for i = 1, last - first + 1 do
      found[first + i - 1] = piece[i]
    end
  end
  return found
end

local function append(lists, key, value)
  local list = lists[key]
  if list then
    list[#list + 1] = value
  else
    lists[key] = { value }
  end
end

local function arguments(first)
  local values = {}
  for i = first, #ARGV do
    values[i - first + 1] = ARGV[i]
  end
  return values
end

-- A write that changes nothing and that a server let through which has no memory left: what follows it may then take some.
-- Used where giving work back is the way to have memory again.
local function even_when_full()
  call('DEL', PREFIX .. 'nothing')
end

-- What another version has written may mean something else: what does not know the format neither reads nor writes. A namespace of
-- the format before, or one that is just being brought to this one, is for `headrace migrate` only (see migration.lua).
local function check_format(found)
  if found and found ~= '2' then
    if found == '1' or found == '1 on its way to 2' then
      fail('OLDER', PREFIX .. '* is in format ' .. found)
    end
    fail('NEWER', PREFIX .. '* was written in format ' .. found)
  end
end
