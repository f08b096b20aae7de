-- The script as clients call it: EVALSHA sha 0 command now argument ...
if #KEYS > 0 then
  error('No keys should be provided')
end
local command = required('Qless', 'command', ARGV[1])
local run = Qless[command] or Qless.Manage[command]
-- (A class is no command.)
if type(run) ~= 'function' then
  error('Unknown command ' .. command)
end
local now = number(command, 'now', ARGV[2])
-- Only the command's own arguments are left.
table.remove(ARGV, 1)
table.remove(ARGV, 1)
return run(now, ARGV)
