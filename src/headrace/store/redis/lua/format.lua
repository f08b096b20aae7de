-- What another version has written may mean something else: who does not know the format neither reads nor writes.
local function check_format(found)
  if found and found ~= '1' then
    fail('NEWER', PREFIX .. '* was written in format ' .. found)
  end
end
