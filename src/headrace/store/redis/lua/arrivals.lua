-- All jobs in the order in which they came: ids in blocks of 256 arrival numbers, which have all bytes but the last in common. (There
-- is no job with number 0.) A batch is appended with a command or two, and nothing is paid for a job that goes but a count of holes
-- (see plan.lua): ids of jobs that are gone are skipped by a walk, and a block goes with the last of its jobs. Sweeps take the holes
-- out of blocks that have few left.
--@include prelude

local function block_key(block)
  return PREFIX .. string.format('block:%.0f', block)
end

-- Jobs come, the first of them with the number `first`: `arriving` checks, `arrive_all` writes what it answers. That has to be the
-- first write: the key that it begins with is not looked at, and refused should it be of another type.
local function arriving(first, ids)
  local pieces, at, n = {}, 1, #ids
  while at <= n do
    local number = first + at - 1
    local block = math.floor(number / BLOCK)
    local key, last = block_key(block), math.min(n, (block + 1) * BLOCK - first)
    if pieces[1] then
      check_type(key, 'list')
    end
    if number % BLOCK == 0 or number == 1 then
      check_type(ARRIVALS, 'zset')
      append(pieces, 'blocks', block)
      append(pieces, 'blocks', block)
    end
    pieces[#pieces + 1] = { key, at, last }
    at = last + 1
  end
  return pieces
end

local function arrive_all(pieces, ids)
  for _, piece in ipairs(pieces) do
    call('RPUSH', piece[1], unpack(ids, piece[2], piece[3]))
  end
  bulk('ZADD', ARRIVALS, pieces.blocks or {})
end
