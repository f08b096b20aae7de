-- tag: change the tags of jobs, and whether they are tracked.
--
-- ARGV[2]  msgpack list: ids, tags to remove, tags to add, and true, false or nil (as it is) for being tracked
-- Answers  for each 1 if it is there, else 0
-- Fails    REFUSED
--@include current commit

local good, said = pcall(cmsgpack.unpack, ARGV[2])
local ids, remove_, add, tracked = unpack(good and type(said) == 'table' and said or {}, 1, 4)
checks.list_of_texts(remove_, 'the tags to remove')
checks.list_of_texts(add, 'the tags to add')
if type(ids) ~= 'table' or tracked ~= nil and type(tracked) ~= 'boolean' then
  checks.refuse('What to tag must be a list of ids, and being tracked is true or false.')
end

-- The tags that a job will have, in order; the indexes follow.
local function changed_tags(job, tags)
  local has, changed = {}, {}
  for _, tag in ipairs(tags) do
    has[tag] = true
  end
  for _, tag in ipairs(remove_) do
    if has[tag] then
      has[tag] = nil
      index('tag:' .. tag, job, false)
    end
  end
  for _, tag in ipairs(tags) do
    changed[#changed + 1] = has[tag] and tag or nil
  end
  for _, tag in ipairs(add) do
    if not has[tag] then
      has[tag] = true
      changed[#changed + 1] = tag
      index('tag:' .. tag, job, true)
    end
  end
  return changed[1] and changed or nil
end

load_many(ids)
local answer = {}
for i, id in ipairs(ids) do
  local job = find_job(id)
  answer[i] = job and 1 or 0
  if job then
    local more = more_of(job)
    more.tags = changed_tags(job, more.tags or {})
    if tracked ~= nil then
      more.tracked = tracked or nil
      index('tracked', job, tracked)
    end
    keep_more(job, more)
    change(job)
  end
end
if plan.changed[1] then
  commit(unless_full)
end
return answer
