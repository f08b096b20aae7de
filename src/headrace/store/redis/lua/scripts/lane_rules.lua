-- lane_rules: what operators have set for lanes.
--
-- Answers  {name of a lane, rule as msgpack, ...}
--@include current admission

local found = call('HGETALL', lanes.rules)
for i = 1, #found, 2 do
  lanes.read_rule(found[i], found[i + 1])
end
return found
