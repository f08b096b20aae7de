-- A batch that costs more than one step should: its parts are staged, and nothing of it is there before the last of them. From
-- then on all of it is certain to come, part by part: its client sees to that, or sweeps do.
--
--   {ns}:staged:<batch>  list  the parts that have not come in, as `put` takes them; expires unless all of them are there
--   {ns}:batch:<batch>   hash  at: when it was put; c<job id> -> the job that stood in its way. There once all parts are; goes, or
--                              expires if jobs stood in the way, when the last has come in
--   {ns}:arriving        zset  batches of which parts have not come in: score when it was put
local KEPT = 60000
local stages = {
  parts = PREFIX .. 'staged:' .. ARGV[2], about = PREFIX .. 'batch:' .. ARGV[2], arriving = PREFIX .. 'arriving',
}
check_type(stages.parts, 'list')
check_type(stages.about, 'hash')
check_type(stages.arriving, 'zset')
