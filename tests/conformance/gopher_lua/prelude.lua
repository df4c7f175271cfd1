local lines = {}
local function show(v)
  local kind = type(v)
  if kind == "string" then
    local found = {}
    for i = 1, #v do
      local c = string.byte(v, i)
      found[i] = c >= 32 and c < 127 and string.char(c) or "\\" .. c
    end
    return '"' .. table.concat(found) .. '"'
  end
  if kind == "table" or kind == "function" then return kind end
  return tostring(v)
end
local function out(...)
  local found = {}
  for i = 1, select("#", ...) do found[i] = show((select(i, ...))) end
  lines[#lines + 1] = table.concat(found, " ")
end
local function try(f)
  if not pcall(f) then lines[#lines + 1] = "error" end
end
