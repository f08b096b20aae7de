-- The index of tags: `ql:t:<t>` has the jobs of a tag, `ql:tags` how often each is used.

function Tags.index(now, jid, tags)
  for _, tag in ipairs(tags) do
    tag = tostring(tag)
    call('ZADD', 'ql:t:' .. tag, now, jid)
    call('ZINCRBY', 'ql:tags', 1, tag)
  end
end

function Tags.forget(jid, tags)
  for _, tag in ipairs(tags) do
    tag = tostring(tag)
    call('ZREM', 'ql:t:' .. tag, jid)
    call('ZINCRBY', 'ql:tags', -1, tag)
  end
end

-- A list of tags with some more at its end, and those that it did not have.
function Tags.with(tags, more)
  local has, all, added = {}, {}, {}
  for _, tag in ipairs(tags) do
    has[tostring(tag)] = true
    all[#all + 1] = tag
  end
  for _, tag in ipairs(more) do
    if not has[tag] then
      has[tag] = true
      all[#all + 1] = tag
      added[#added + 1] = tag
    end
  end
  return all, added
end

-- A list of tags without some, and those that it did have.
function Tags.without(tags, less)
  local unwanted, left, removed = {}, {}, {}
  for _, tag in ipairs(less) do
    unwanted[tag] = true
  end
  for _, tag in ipairs(tags) do
    local list = unwanted[tostring(tag)] and removed or left
    list[#list + 1] = tag
  end
  return left, removed
end

-- Jobs that have a tag, by the time they were given it.
function Tags.jobs(tag, offset, count)
  return {
    total = call('ZCARD', 'ql:t:' .. tag),
    jobs = count > 0 and call('ZRANGE', 'ql:t:' .. tag, offset, offset + count - 1) or {},
  }
end

-- Tags that are used at least twice, the most used first.
function Tags.top(offset, count)
  return call('ZREVRANGEBYSCORE', 'ql:tags', '+inf', 2, 'LIMIT', offset, count)
end
