-- pop queue worker count
-- Hands up to `count` jobs to a worker: first those whose locks have ended twice, then the line, into which
-- recurring and scheduled jobs get when they are due. A paused queue gives nothing and does nothing.
-- Reply: JSON list of job objects.
Qless.pop = function(now, arguments)
  local queue = required('Pop', 'queue', arguments[1])
  local worker = required('Pop', 'worker', arguments[2])
  local count = floor(number('Pop', 'count', arguments[3]))
  return encode(Qless.Pop.pop(now, queue, worker, count))
end
return Qless.pop
