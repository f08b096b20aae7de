-- All jobs in the order in which they came: ids in blocks of 256 arrival numbers, which have all bytes but the last in common. (There
-- is no job with number 0.) A batch is appended with a command or two, and nothing is paid for a job that goes but a count of holes
-- (see plan.lua): ids of jobs that are gone are skipped by a walk, and a block goes with the last of its jobs. Sweeps take the holes
-- out of blocks that have few left.
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
    local piece = { block_key(block), at, math.min(n, (block + 1) * BLOCK - first), (number % BLOCK == 0 or number == 1) and block }
    if pieces[1] then
      check_type(piece[1], 'list')
    end
    if piece[4] then
      check_type(ARRIVALS, 'zset')
    end
    pieces[#pieces + 1] = piece
    at = piece[3] + 1
  end
  return pieces
end

local function arrive_all(pieces, ids)
  for i = 1, #pieces do
    local piece = pieces[i]
    call('RPUSH', piece[1], unpack(ids, piece[2], piece[3]))
    if piece[4] then
      call('ZADD', ARRIVALS, piece[4], piece[4])
    end
  end
end
