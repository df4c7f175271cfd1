-- Numbers of scripts are doubles, as in gopher-lua. Only documents and lengths have integers of Lua 5.4; arithmetic converts
-- them to doubles (fleethook.engines.interpret.lua.script_scanner_and_rewriter).

local parts = ...

local type, tonumber, error, select, next = type, tonumber, error, select, next
local mathtype, tointeger, math = math.type, math.tointeger, math
local find, match, gsub, sub, lower = string.find, string.match, string.gsub, string.sub, string.lower
local floor, ceil = math.floor, math.ceil
local getmetatable = getmetatable

-- Returns the result of Go's ParseInt(text, base, 64), nil for an error. Base 0 means that the prefix determines the base.
local function parse_integer(text, base)
  local sign, digits = match(text, "^([-+]?)(.*)$")
  if base == 0 then
    base = 10
    local prefix = lower(sub(digits, 1, 2))
    local bases = { ["0x"] = 16, ["0b"] = 2, ["0o"] = 8 }
    if bases[prefix] then
      base, digits = bases[prefix], sub(digits, 3)
      digits = gsub(digits, "^_", "")
    elseif sub(digits, 1, 1) == "0" and #digits > 1 then
      base, digits = 8, gsub(sub(digits, 2), "^_", "")
    end
    if find(digits, "__", 1, true) or find(digits, "_$") or find(digits, "^_") then return nil end
    digits = gsub(digits, "_", "")
  end
  if digits == "" or find(digits, "%W") or base < 2 or base > 36 then return nil end
  if #digits > 64 then digits = gsub(digits, "^0+", "0") end
  if #digits > 65 then return nil end
  local value = base == 10 and tonumber(digits .. ".0") or 0.0
  if base == 10 then
    if find(digits, "%D") then return nil end
    local exact = mathtype(tonumber(digits)) == "integer"
    if not exact and not (sign == "-" and value == 2 ^ 63 and find(digits, "^0*9223372036854775808$")) then return nil end
  else
    for i = 1, #digits do
      local digit = tonumber(sub(digits, i, i), 36)
      if digit >= base then return nil end
      value = value * base + digit
    end
    if value >= 2.0 ^ 63 and not (sign == "-" and value == 2.0 ^ 63) then return nil end
  end
  return sign == "-" and 0.0 - value or value + 0.0
end

local SPECIAL = {
  inf = 1 / 0, ["+inf"] = 1 / 0, ["-inf"] = -1 / 0, infinity = 1 / 0, ["+infinity"] = 1 / 0, ["-infinity"] = -1 / 0,
  nan = 0 / 0,
}

-- Returns the result of Go's ParseFloat(text, 64), nil for an error, also if the number is too large.
local function parse_float(text)
  local special = SPECIAL[lower(text)]
  if special then return special end
  if #text > 2000 or find(text, "[^%w.+-]") then return nil end
  if find(text, "^[-+]?0[xX]") and not find(text, "[pP]") then return nil end
  local value = tonumber((gsub(text, "^%+", "", 1)))
  if value == nil or value == 1 / 0 or value == -1 / 0 or find(text, "^%+[-+]") then return nil end
  return value + 0.0
end

local function trimmed(text) return match(text, "^[ \t\n]*(.-)[ \t\n]*$") end

-- Converts a string for arithmetic, nil if it is not a number (gopher-lua's parseNumber).
local function parsed(text)
  if #text > 4000 then return nil end
  text = trimmed(text)
  return parse_integer(text, 0) or parse_float(text)
end

local function bad(position, name, expected, v, level)
  error("bad argument #" .. position .. " to '" .. name .. "' (" .. expected .. " expected, got " .. type(v) .. ")", level or 4)
end

-- Returns an integer argument: fractions are truncated, strings refused (gopher-lua's LState.CheckInt).
local function integer(v, position, name)
  if mathtype(v) == "integer" then return v end
  if mathtype(v) ~= "float" then bad(position, name, "number", v) end
  return tointeger(v < 0 and ceil(v) or floor(v)) or math.mininteger
end

-- Returns an argument that is a number or a numeric string (gopher-lua's LState.CheckNumber).
local function number(v, position, name)
  if mathtype(v) then return v end
  local value = type(v) == "string" and parsed(v)
  if not value then bad(position, name, "number", v) end
  return value
end

local function to_number(...)
  if select("#", ...) == 0 then error("bad argument #1 to 'tonumber' (value expected)", 2) end
  local v, base = ...
  if base ~= nil then base = integer(base, 2, "tonumber") end
  if type(v) == "number" then return v end
  if type(v) ~= "string" or #v > 4000 then return nil end
  local text = match(v, "^[ \n\t]*(.-)[ \n\t]*$")
  if find(text, ".", 1, true) then return parse_float(text) end
  if base == nil and find(text, "^0[xX]") then return parse_integer(sub(text, 3), 16) end
  return parse_integer(text, base or 10)
end

-- Go's math.Pow: integral powers are products, fractional powers use C.
local function power(x, y)
  if mathtype(x) == nil or mathtype(y) == nil then
    local a, b = x, y
    x, y = mathtype(x) and x or type(x) == "string" and parsed(x), mathtype(y) and y or type(y) == "string" and parsed(y)
    if not x or not y then
      error("attempt to perform arithmetic on a " .. type(not x and a or b) .. " value", 2)
    end
  end
  local result = x ^ y
  if result ~= result or result == 0 or result == 1 / 0 or result == -1 / 0 or (result == floor(result) and result < 2 ^ 53) then
    return result
  end
  local times = y < 0 and -y or y
  if times ~= floor(times) or times > 2000 then return result end
  local product, factor, n = 1.0, x + 0.0, tointeger(times)
  while n > 0 do
    if n & 1 == 1 then product = product * factor end
    n = n >> 1
    if n > 0 then factor = factor * factor end
  end
  if y < 0 then product = 1 / product end
  return product == product and product ~= 0 and product - product == 0 and product or result
end

-- Go's math.Mod, which handles 0 and infinity as IEEE 754.
local function remainder(x, y) return math.fmod(x + 0.0, y + 0.0) end

local function frexp(x)
  if x == 0 or x ~= x or x - x ~= 0 then return x, 0 end
  local scale = 0
  if x > -2.0 ^ -1021 and x < 2.0 ^ -1021 then x, scale = x * 2.0 ^ 54, -54 end
  local exponent = 0
  local size = x < 0 and -x or x
  exponent = floor(math.log(size, 2)) + 1
  local mantissa = exponent > 1000 and x / 2.0 ^ 1000 / 2.0 ^ (exponent - 1000) or x / 2.0 ^ exponent
  if mantissa >= 1 or mantissa <= -1 then
    mantissa, exponent = mantissa / 2, exponent + 1
  elseif mantissa < 0.5 and mantissa > -0.5 then
    mantissa, exponent = mantissa * 2, exponent - 1
  end
  return mantissa, exponent + scale
end

-- Go's math.Log10, which uses Log2.
local LN2, LN10 = 0.693147180559945309417232121458176568, 2.30258509299404568401799145468436421
local function log10(x)
  local mantissa, exponent = frexp(x)
  if mantissa == 0.5 then return (exponent - 1) * (LN2 / LN10) end
  return (math.log(mantissa) * (1 / LN2) + exponent) * (LN2 / LN10)
end

local function one(name, f)
  return function(x) return f(number(x, 1, name)) end
end

local function most(name, better)
  return function(...)
    local n = select("#", ...)
    if n == 0 then error("wrong number of arguments to '" .. name .. "'", 2) end
    local found = number((...), 1, name)
    for i = 2, n do
      local v = number((select(i, ...)), i, name)
      if better(v, found) then found = v end
    end
    return found
  end
end

local E = math.exp
local library = {
  abs = one("abs", math.abs), ceil = one("ceil", ceil), floor = one("floor", floor),
  max = most("max", function(v, found) return v > found end), min = most("min", function(v, found) return v < found end),
  -- The largest double, which is valid JSON.
  huge = 1.7976931348623157e308, pi = math.pi,
  fmod = function(x, y) return remainder(number(x, 1, "fmod"), number(y, 2, "fmod")) end,
  mod = function(x, y) return (number(x, 1, "mod") + 0.0) % number(y, 2, "mod") end,
  sqrt = one("sqrt", math.sqrt), exp = one("exp", E), log = one("log", function(x) return math.log(x) end),
  log10 = one("log10", log10),
  pow = function(x, y) return power(number(x, 1, "pow"), number(y, 2, "pow")) end,
  ldexp = function(m, e)
    m, e = number(m, 1, "ldexp"), integer(e, 2, "ldexp")
    if e > 1000 or e < -1000 then m, e = m * 2.0 ^ (e // 2), e - e // 2 end
    return m * 2.0 ^ e
  end,
  frexp = one("frexp", frexp),
  modf = one("modf", function(x)
    if x - x ~= 0 then return x, 0 / 0 end
    local cut = x < 0 and ceil(x) or floor(x)
    return cut, x - cut
  end),
  sin = one("sin", math.sin), cos = one("cos", math.cos), tan = one("tan", math.tan), asin = one("asin", math.asin),
  acos = one("acos", math.acos), atan = one("atan", function(x) return math.atan(x) end),
  atan2 = function(y, x) return math.atan(number(y, 1, "atan2"), number(x, 2, "atan2")) end,
  sinh = one("sinh", function(x) return (E(x) - E(-x)) / 2 end), cosh = one("cosh", function(x) return (E(x) + E(-x)) / 2 end),
  tanh = one("tanh", function(x) return x > 20 and 1.0 or x < -20 and -1.0 or (E(x) - E(-x)) / (E(x) + E(-x)) end),
  deg = one("deg", function(x) return x * 180 / math.pi end), rad = one("rad", function(x) return x * math.pi / 180 end),
  random = function(...)
    local n = select("#", ...)
    if n == 0 then return math.random() end
    local from, to = 1, integer((...), 1, "random")
    if n > 1 then from, to = to, integer((select(2, ...)), 2, "random") end
    if to < from then error("bad argument #" .. (n > 1 and 2 or 1) .. " to 'random' (interval is empty)", 2) end
    return math.random(from, to)
  end,
  randomseed = function(seed) math.randomseed(integer(seed, 1, "randomseed")) end,
}

-- Arithmetic with strings.
local function arithmetic(f)
  return function(a, b)
    local x = mathtype(a) and a or type(a) == "string" and parsed(a)
    local y = mathtype(b) and b or type(b) == "string" and parsed(b)
    if not x or not y then error("attempt to perform arithmetic on a " .. type(not x and a or b) .. " value", 2) end
    return f(x + 0.0, y + 0.0)
  end
end
local texts = getmetatable("")
texts.__add, texts.__sub = arithmetic(function(a, b) return a + b end), arithmetic(function(a, b) return a - b end)
texts.__mul, texts.__div = arithmetic(function(a, b) return a * b end), arithmetic(function(a, b) return a / b end)
texts.__mod, texts.__unm = arithmetic(function(a, b) return a % b end), arithmetic(function(a) return -a end)
texts.__pow, texts.__idiv = power, nil

parts.numbers = {
  integer = integer, number = number, parsed = parsed, to_number = to_number, power = power, library = library, bad = bad,
}
