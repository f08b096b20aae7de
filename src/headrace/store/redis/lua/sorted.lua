-- Sorted sets as the plan will have them: what is there, without what leaves, and with what comes.
--@include admission

makers[sorted] = function()
  local NOWHERE = pack('>I6I6', 0, 0)
  sorted.known, sorted.few, sorted.many = {}, 4, 64

  function sorted.at(key)
    local set = sorted.known[key]
    if not set then
      -- there: what was read so far, {score, member} each; first: the first of these that has not left
      -- came: member -> score; order: the same as a list, from `from` on, stale entries included; unsorted: not yet in there
      set = { there = {}, first = 1, whole = false, came = {}, left = {}, order = {}, from = 1, unsorted = {} }
      sorted.known[key] = set
    end
    return set
  end

  function sorted.add(key, score, member)
    local set = sorted.at(key)
    set.came[member] = score
    set.unsorted[#set.unsorted + 1] = { score, member }
  end

  function sorted.remove(key, member)
    local set = sorted.at(key)
    set.came[member] = nil
    set.left[member] = true
  end

  -- By score, then by the times and numbers that the members of lines begin with. (Not `<` on the bytes: that goes by the server's
  -- locale.)
  function sorted.before(a, b)
    if a[1] ~= b[1] then
      return a[1] < b[1]
    end
    local due_a, arrival_a = unpack_from('>I6I6', #a[2] < 12 and NOWHERE or a[2])
    local due_b, arrival_b = unpack_from('>I6I6', #b[2] < 12 and NOWHERE or b[2])
    if due_a ~= due_b then
      return due_a < due_b
    end
    return arrival_a < arrival_b
  end

  function sorted.read_further(key, set, number)
    local from = #set.there
    local found = call('ZRANGE', key, from, from + number - 1, 'WITHSCORES')
    for i = 1, #found, 2 do
      set.there[#set.there + 1] = { tonumber(found[i + 1]), found[i] }
    end
    set.whole, types[key] = #found < 2 * number, 'zset' -- or that would have failed
  end

  -- Into a list that is in order.
  function sorted.insert(list, entry, from)
    local low, high = from, #list + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if sorted.before(entry, list[middle]) then
        high = middle
      else
        low = middle + 1
      end
    end
    table.insert(list, low, entry)
  end

  -- The first of those that came.
  function sorted.comers(set, wanted)
    if #set.unsorted > 8 then
      for _, entry in ipairs(set.unsorted) do
        set.order[#set.order + 1] = entry
      end
      local order = {}
      for i = set.from, #set.order do
        order[#order + 1] = set.order[i]
      end
      table.sort(order, sorted.before)
      set.order, set.from = order, 1
    else
      for _, entry in ipairs(set.unsorted) do
        sorted.insert(set.order, entry, set.from)
      end
    end
    set.unsorted = {}
    local found, listed, i = {}, {}, set.from
    while #found < wanted and set.order[i] do
      local entry = set.order[i]
      if set.came[entry[2]] == entry[1] and not listed[entry[2]] then
        listed[entry[2]] = true
        found[#found + 1] = entry
      elseif not found[1] then
        set.from = i + 1
      end
      i = i + 1
    end
    return found
  end

  -- The first ones, {score, member} each.
  function sorted.head(key, wanted)
    local set, found = sorted.at(key), {}
    local i = set.first
    while #found < wanted do
      if i > #set.there then
        if set.whole then
          break
        end
        sorted.read_further(key, set, math.max(wanted, sorted.few, math.min(#set.there, sorted.many)))
      end
      local entry = set.there[i]
      if entry then
        if not set.left[entry[2]] and not set.came[entry[2]] then
          found[#found + 1] = entry
        elseif not found[1] then
          set.first = i + 1
        end
        i = i + 1
      end
    end
    local came = next(set.came) ~= nil and sorted.comers(set, wanted) or {}
    if not came[1] or not found[1] then
      return came[1] and came or found
    end
    for _, entry in ipairs(came) do
      found[#found + 1] = entry
    end
    table.sort(found, sorted.before)
    for j = #found, wanted + 1, -1 do
      found[j] = nil
    end
    return found
  end

  -- Into the plan.
  function sorted.write()
    for key, set in pairs(sorted.known) do
      for member in pairs(set.left) do
        if not set.came[member] then
          append(plan.sorted_out, key, member)
        end
      end
      for member, score in pairs(set.came) do
        append(plan.sorted_in, key, score, member)
      end
    end
  end
end
