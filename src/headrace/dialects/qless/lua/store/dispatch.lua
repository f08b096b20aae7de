-- The script of headrace's own store and worker: EVALSHA sha 0 class operation now arguments. The arguments are a list in
-- MessagePack, and follow `now`. An empty `now` means the server's.
local now = tonumber(ARGV[3])
if not now then
  local time = call('TIME')
  now = time[1] + time[2] / 1000000
end
local answer = Qless[ARGV[1]][ARGV[2]](now, unpack(cmsgpack.unpack(ARGV[4])))
return {string.format('%.17g', now), cjson.encode(answer or {})}
