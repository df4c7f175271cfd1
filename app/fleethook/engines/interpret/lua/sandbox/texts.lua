-- Converts values to strings as gopher-lua does (LNumber.String): numbers that fit int64 as integers, others as Go's %v.

local parts = ...

local type, tostring, mathtype, tointeger, error = type, tostring, math.type, math.tointeger, error
local format, gsub, tonumber, match = string.format, string.gsub, tonumber, string.match
local NULL = parts.tables.NULL

-- Converts an integral number to an integer, so that its JSON has no fraction.
local function whole(x)
  if mathtype(x) == "float" then return tointeger(x) or x end
  return x
end

-- The fewest digits that identify the number, with an exponent below -4 and from 6.
local function shortest(x)
  if x ~= x then return "NaN" end
  if x == 1 / 0 then return "+Inf" end
  if x == -1 / 0 then return "-Inf" end
  local digits = 14
  local text = format("%.14e", x)
  while tonumber(text) ~= x do
    digits = digits + 1
    text = format("%." .. digits .. "e", x)
  end
  local exponent = tonumber(match(text, "e(.*)"))
  if exponent >= -4 and exponent < 6 then return format("%." .. digits + 1 .. "g", x) end
  return (gsub(gsub(text, "0+e", "e", 1), "%.e", "e", 1))
end

local function number_text(x)
  if mathtype(x) == "integer" then return tostring(x) end
  local i = tointeger(x)
  if i then return tostring(i) end
  return shortest(x)
end

local function to_text(...)
  local v = (...)
  local kind = type(v)
  if kind == "number" then return number_text(v) end
  if kind == "table" then return v == NULL and "null" or "table" end
  if kind == "function" then return "function" end
  return tostring(...)
end

-- Converts an operand of `..`; the second argument is its name in messages.
local function operand(v, name)
  local kind = type(v)
  if kind == "string" then return v end
  if kind == "number" then
    if mathtype(v) == "float" then return number_text(v) end
    return v
  end
  error("attempt to concatenate a " .. kind .. " value" .. (name or ""), 2)
end

parts.texts = {
  whole = whole, to_text = to_text, number_text = number_text, shortest = shortest, operand = operand,
}
