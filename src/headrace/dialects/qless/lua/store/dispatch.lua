-- The script of headrace's own store and worker: EVALSHA sha 0 operation now arguments, of which the last is MessagePack.
-- An empty `now` means the server's.
local operation, now = ARGV[1], tonumber(ARGV[2])
if not now then
  local time = call('TIME')
  now = time[1] + time[2] / 1000000
end
local arguments = cmsgpack.unpack(ARGV[3])
local answer
if operation == 'open' then
  Qless.Sessions.open(now, arguments.session, arguments.worker, arguments.info)
elseif operation == 'exchange' then
  answer = Qless.Exchange.exchange(now, arguments.session, arguments.number, arguments.outcomes, arguments.wanted)
elseif operation == 'renew' then
  answer = Qless.Exchange.renew(now, arguments.session, arguments.held)
elseif operation == 'quarantine' then
  Qless.Exchange.quarantine(now, arguments.session, arguments.jobs)
elseif operation == 'report' then
  answer = Qless.Exchange.report(now, arguments.session, arguments.number, arguments.reports)
elseif operation == 'close' then
  answer = Qless.Exchange.close(now, arguments.session, arguments.crashed)
elseif operation == 'put' then
  Qless.Clients.put(now, arguments)
elseif operation == 'get' then
  answer = Qless.Clients.get(arguments)
elseif operation == 'list' then
  answer = Qless.Clients.list(arguments)
elseif operation == 'counts' then
  answer = Qless.Clients.counts(now)
elseif operation == 'cancel' then
  answer = Qless.Clients.cancel(arguments)
elseif operation == 'delete' then
  answer = Qless.Clients.delete(arguments)
elseif operation == 'revive' then
  answer = Qless.Clients.revive(now, arguments)
elseif operation == 'workers' then
  answer = Qless.Clients.workers(now)
elseif operation == 'queues' then
  answer = call('ZRANGE', 'ql:queues', 0, -1)
elseif operation == 'depend' then
  answer = Qless.Edit.depend(now, arguments.jid, arguments.add, arguments.remove)
elseif operation == 'tag' then
  answer = Qless.Edit.tag(now, arguments.jids, arguments.add, arguments.remove)
elseif operation == 'tags' then
  answer = Qless.Edit.tags(arguments)
elseif operation == 'track' then
  answer = Qless.Edit.track(now, arguments.jids, arguments.on)
elseif operation == 'controls' then
  answer = Qless.Edit.controls()
elseif operation == 'pause' then
  answer = call('SADD', 'ql:paused_queues', arguments)
elseif operation == 'resume' then
  answer = call('SREM', 'ql:paused_queues', arguments)
elseif operation == 'edit' then
  answer = Qless.Edit.edit(now, arguments.jobs, arguments.change)
elseif operation == 'take_back' then
  answer = Qless.Edit.take_back(now, arguments)
elseif operation == 'peek' then
  answer = Qless.Edit.peek(now, arguments.queue, arguments.limit)
elseif operation == 'circumstances' then
  answer = Qless.Edit.circumstances(now, arguments)
elseif operation == 'settings' then
  answer = Qless.Edit.settings(arguments)
elseif operation == 'stats' then
  answer = Qless.Statistics.report(arguments.queue, arguments.date)
elseif operation == 'failures' then
  answer = Qless.Failures.groups()
elseif operation == 'recurrences' then
  answer = Qless.Schedules.all()
elseif operation == 'recurring' then
  answer = Qless.Schedules.named(arguments)
elseif operation == 'recur' then
  answer = Qless.Schedules.put(now, arguments.name, arguments.expected, arguments.new, arguments.ours)
elseif operation == 'unrecur' then
  answer = Qless.Schedules.delete(arguments)
end
return {string.format('%.17g', now), cjson.encode(answer or {})}
