-- The script as clients call it: EVALSHA sha 0 command now argument ...
if #KEYS > 0 then
  error('No keys should be provided')
end
local command = required('Qless', 'command', ARGV[1])
local run = Qless[command]
-- (A class is no command.)
if type(run) == 'function' then
  return run(number(command, 'now', ARGV[2]), unpack(ARGV, 3))
end
run = not run and Qless.Manage[command]
if not run then
  error('Unknown command ' .. command)
end
local now = number(command, 'now', ARGV[2])
-- These may have more arguments than `unpack` can take: only the command's own are left.
table.remove(ARGV, 1)
table.remove(ARGV, 1)
return run(now, ARGV)
