-- pop queue worker count
-- Hands up to `count` jobs to a worker: first those whose locks have ended twice, then the line, into which
-- recurring and scheduled jobs get when they are due. A paused queue gives nothing and does nothing.
-- Reply: JSON list of job objects.
function Qless.pop(now, queue, worker, count)
  required('Pop', 'queue', queue)
  required('Pop', 'worker', worker)
  return cjson.encode(Qless.Pop.pop(now, queue, worker, whole('Pop', 'count', count)))
end
