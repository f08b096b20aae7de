-- What another version has written may mean something else: what does not know the format neither reads nor writes. A namespace of
-- the format before, or one that is just being brought to this one, is for `headrace migrate` only (see migrating.lua).
local function check_format(found)
  if found and found ~= '2' then
    if found == '1' or found == '1 on its way to 2' then
      fail('OLDER', PREFIX .. '* is in format ' .. found)
    end
    fail('NEWER', PREFIX .. '* was written in format ' .. found)
  end
end
