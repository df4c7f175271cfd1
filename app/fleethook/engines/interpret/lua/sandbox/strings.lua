-- The string library with gopher-lua's behavior. C functions process a string without interruption, so their work is counted.

local parts = ...

local patterns, texts, numbers = parts.patterns, parts.texts, parts.numbers
local work, change_case = parts.limits.work, parts.host.change_case
local integer, to_text, bad = numbers.integer, texts.to_text, numbers.bad
local type, error, select, mathtype = type, error, select, math.type
local byte, char, rep, sub, reverse, lower, upper, find = string.byte, string.char, string.rep, string.sub, string.reverse, string.lower, string.upper, string.find
local unpack, len = table.unpack, utf8.len

local MAX_VALUES = 8000 -- results of a function

local function text(v, position, name)
  if type(v) == "string" then return v end
  if mathtype(v) then return to_text(v) end
  bad(position, name, "string", v)
end

local function sub_(s, i, j)
  s = text(s, 1, "sub")
  i = integer(i, 2, "sub")
  if j ~= nil then j = integer(j, 3, "sub") end
  work(#s > 1000 and #s or 0)
  return sub(s, i, j)
end

-- Without a position gopher-lua returns all bytes.
local function byte_(s, ...)
  s = text(s, 1, "byte")
  local n = select("#", ...)
  if n == 0 then return byte(s, 1, #s < MAX_VALUES and #s or 1) end
  local i, j = ...
  i = i == nil and 1 or integer(i, 2, "byte")
  if i == 0 then return end
  if n == 1 then return byte(s, i) end
  j = j == nil and -1 or integer(j, 3, "byte")
  local from, to = i < 0 and #s + i + 1 or i, j < 0 and #s + j + 1 or j
  if (to > #s and #s or to) - (from < 1 and 1 or from) >= MAX_VALUES then error("too many results of 'byte'", 2) end
  return byte(s, i, j)
end

local function char_(...)
  local n = select("#", ...)
  local values = { ... }
  for i = 1, n do values[i] = integer(values[i], i, "char") & 255 end
  return char(unpack(values, 1, n))
end

local function rep_(s, n)
  s, n = text(s, 1, "rep"), integer(n, 2, "rep")
  if s == "" or n <= 0 then return "" end
  if n > 1 << 30 or #s * n > 1 << 30 then error("resulting string too large", 2) end
  work(#s * n)
  return rep(s, n)
end

local function reverse_(s)
  s = text(s, 1, "reverse")
  work(#s)
  return reverse(s)
end

-- The host changes the case of letters beyond ASCII.
local function cased(name, f)
  return function(s)
    s = text(s, 1, name)
    work(#s)
    if find(s, "[\128-\255]") and len(s) then return change_case(name, s) end
    return f(s)
  end
end

local function gsub_(s, p, replacement, most)
  if type(replacement) ~= "function" then return patterns.gsub(s, p, replacement, most) end
  return parts.calls_within(patterns.gsub, s, p, replacement, most)
end

parts.strings = {
  byte = byte_, char = char_, len = function(s) return #text(s, 1, "len") end, lower = cased("lower", lower),
  upper = cased("upper", upper), reverse = reverse_, sub = sub_, rep = rep_, format = parts.format,
  find = patterns.find, match = patterns.match, gmatch = patterns.gmatch, gfind = patterns.gmatch, gsub = gsub_,
}
