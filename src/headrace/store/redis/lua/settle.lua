-- Settling outcomes that plain.lua does not settle, and what follows from the end of jobs: the first half of an exchange.

-- One outcome of a job that has anything special.
local function settle_other(session, verdicts, i, id, arrival, token, outcome)
  local job = find_job(id, nil, arrival)
  if holds(session, job, arrival, token) then
    end_run(session, job, outcome)
    verdicts[i] = V_OK
  elseif job and job.state ~= RUNNING and job.token == token and job.arrival == arrival
    and job.session == session.number then
    verdicts[i] = V_ALREADY
  else
    verdicts[i] = V_STALE
  end
end

-- Settles them all, or what is left of them if some are `settled`; a byte per verdict. `kept`: how many done jobs to keep at most, if
-- not as set.
local function settle_all(session, settled, kept)
  for _, outcome in ipairs(settled and settled.others or {}) do
    settle_other(session, unpack(outcome))
  end
  settled = settled or settle_plain(session, ARGV[4], function(...)
    settle_other(session, ...)
  end)
  local finished_in = plan.ended_in[DONE]
  for i = 1, settled.number do
    local id = settled.done[i]
    finished_in[#finished_in + 1] = settled.scores[i]
    finished_in[#finished_in + 1] = id
    append(plan.held_out, session.held, id)
    plan.ended[#plan.ended + 1] = id
  end
  if finished_in[1] then
    local there, coming = call('ZCARD', ENDED[DONE]), #finished_in / 2
    types[ENDED[DONE]] = 'zset' -- or that would have failed
    local surplus, portion = beyond_kept(there, coming, kept or setting('jobs-history-count'))
    local most, over = math.max(2 * coming + 100, portion), history_over()
    if over > 0 then
      purge(DONE, there, most, over)
    elseif surplus >= portion then
      purge_done(math.min(surplus, there), 0, most, portion)
    end
  end
  return as_bytes(settled.verdicts)
end
