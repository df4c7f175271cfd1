-- Numbers and texts as 5.1 has them.

local parts = ...

local type, tostring, mathtype, tointeger = type, tostring, math.type, math.tointeger
local NULL = parts.tables.NULL

local EXACT = 2 ^ 53
local function whole(x)
  if mathtype(x) == "float" and x > -EXACT and x < EXACT then return tointeger(x) or x end
  return x
end

local function to_text(...)
  local v = (...)
  local kind = type(v)
  if kind == "number" then return tostring(whole(v)) end
  if kind == "table" then return v == NULL and "null" or "table" end
  if kind == "function" then return "function" end
  return tostring(...)
end

local function numbered(f)
  return function(...) return whole(f(...)) end
end

parts.texts = { whole = whole, to_text = to_text, numbered = numbered }
