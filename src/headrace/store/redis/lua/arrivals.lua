-- All jobs in the order in which they came: ids in blocks of 256 arrival numbers, which have all bytes but the last in common. (There
-- is no job with number 0.) A batch is appended with a command or two, as H id each, and nothing is paid for a job that goes but a
-- count of holes (see plan.lua): ids of jobs that are gone are skipped by a walk, and a block goes with the last of its jobs. Sweeps
-- take the holes out of blocks that have few left.
--@include prelude

local function block_key(block)
  return PREFIX .. string.format('block:%.0f', block)
end

-- As H id each. Ids that clients make have the same length, which then stands between them: the server does the rest.
local function packed_ids(ids, first, last)
  local size = #ids[first]
  local length = pack('>H', size)
  for i = first + 1, last do
    if #ids[i] ~= size then
      local packed = {}
      for j = first, last do
        packed[#packed + 1] = pack('>Hc0', #ids[j], ids[j])
      end
      return table.concat(packed)
    end
  end
  return length .. table.concat(ids, length, first, last)
end

-- The ids in a block. What cannot be read is the id of no job.
local function ids_in(key)
  local ids, n = {}, 0
  for _, packed in ipairs(call('LRANGE', key, 0, -1)) do
    local at = 1
    while at <= #packed do
      local high, low = packed:byte(at, at + 1)
      local behind = at + 2 + 256 * high + (low or 0)
      n = n + 1
      ids[n], at = packed:sub(at + 2, behind - 1), behind
    end
  end
  return ids
end

-- Jobs come: the first `n` of `ids`, with the numbers from `first` on. `arriving` checks, `arrive_all` writes what it answers. That has
-- to be the first write: the key that it begins with is not looked at, and refused should it be of another type.
local function arriving(first, ids, n)
  local pieces, at = {}, 1
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
    pieces[#pieces + 1] = { key, packed_ids(ids, at, last) }
    at = last + 1
  end
  return pieces
end

local function arrive_all(pieces)
  for _, piece in ipairs(pieces) do
    call('RPUSH', piece[1], piece[2])
  end
  bulk('ZADD', ARRIVALS, pieces.blocks or {})
end
