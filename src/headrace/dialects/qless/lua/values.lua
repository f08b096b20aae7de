-- Lists and tables as they come in, as they were stored, and as commands take them.

-- A JSON list of texts (or numbers) without duplicates, as a table of what was there.
function Values.list(command, name, text)
  local list, seen = {}, {}
  local values = json(command, name, text)
  if type(values) ~= 'table' then
    error(command .. '(): Arg "' .. name .. '" not a list: ' .. text)
  end
  for _, value in ipairs(values) do
    if type(value) ~= 'string' and type(value) ~= 'number' then
      error(command .. '(): Arg "' .. name .. '" has an item that is no text')
    end
    if not seen[tostring(value)] then
      seen[tostring(value)] = true
      list[#list + 1] = value
    end
  end
  return list
end

-- A table that was stored as JSON text; an empty one if the text is missing or damaged.
function Values.stored(text)
  if not text or text == '' or text == '{}' or text == '[]' then
    return {}
  end
  local valid, value = pcall(cjson.decode, text)
  if valid and type(value) == 'table' then
    return value
  end
  return {}
end

-- Whether a table has more than a hundred tables inside each other: as part of something larger it could be too deep for JSON.
function Values.is_deep(value, level)
  level = level or 1
  if level > 100 then
    return true
  end
  for _, inner in pairs(value) do
    if type(inner) == 'table' and Values.is_deep(inner, level + 1) then
      return true
    end
  end
  return false
end

-- A hash as a table of its fields.
function Values.hash(key)
  local found, flat = {}, call('HGETALL', key)
  for i = 1, #flat, 2 do
    found[flat[i]] = flat[i + 1]
  end
  return found
end

-- Call a command with a key and a list of values of any length, `CHUNK` at a time.
function Values.call_with(command, key, values)
  for first = 1, #values, Qless.CHUNK do
    call(command, key, unpack(values, first, math.min(first + Qless.CHUNK - 1, #values)))
  end
end
