-- revive: put failed or cancelled jobs back in line, as if they were new.
--
-- ARGV[2...]  job ids
-- Answers     for each 1 if it was one of these (and nobody else has its unique key now), else 0
--@include prelude format same_format job plan more schedules sorted lanes outcome relations settings stats wake patterns commit ending

local ids = arguments(2)
load_many(ids)
local answer = {}
for i, id in ipairs(ids) do
  local job = find_job(id)
  local may = job and (job.state == FAILED or job.state == CANCELLED) and not is_set_aside(job)
  if may then
    local key = key_of(job)
    local holder = key and holder_of(key)
    if holder and holder.id ~= id then
      local other = find_job(holder.id)
      may = not other or other.state >= DONE
    end
  end
  answer[i] = may and 1 or 0
  if may then
    remember_end(job)
    remember(job, now, 'revived', '', '')
    leave_state(job)
    job.attempts, job.crashes, job.finished, job.due = 0, 0, 0, now
    if band(job.flags, STORY) ~= 0 then
      local story = story_of(job)
      keep_error(job, story, nil)
      keep_group(job, story, nil)
      story.deferred = 0
      job.flags = without(job.flags, HAS_DEFERRED)
      tell(job, story)
    end
    happened(job, 'revived')
    relations.revive(job)
    lanes.join(job)
    wait_in_line(job)
  end
end
local worked = work_off()
if plan.changed[1] or worked then
  commit(even_when_full)
end
return answer
