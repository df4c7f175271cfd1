-- os.time and os.date as gopher-lua answers them (oslib.go, utils.go: strftime) in a container, whose time zone is UTC.
-- Nothing here depends on the time zone or the C library of this machine. Integers wrap at 64 bits, as those of Go.

local parts = ...

local work, integer, bad, parsed = parts.limits.work, parts.numbers.integer, parts.numbers.bad, parts.numbers.parsed
local to_text, plain, get = parts.texts.to_text, parts.tables.plain, rawget
local type, select, mathtype, ult, abs = type, select, math.type, math.ult, math.abs
local now, find, sub, match, gsub, format = os.time, string.find, string.sub, string.match, string.gsub, string.format
local concat = table.concat

local WORK = 200 -- units of work of a directive
local DAY = 86400
local ZERO_YEAR = -292277022399 -- Go's absolute year: the first one of a cycle of 400 years
local ZERO = -9223372028715321600 -- its first second, in seconds since 1970

local MONTHS = {
  "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
}
local DAYS = { [0] = "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday" }
local BEFORE = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365 } -- days before a month

-- Divides an unsigned integer.
local function divided(a, b)
  if a >= 0 then return a // b, a % b end
  local quotient = ((a >> 1) // b) << 1
  local rest = a - quotient * b
  if not ult(rest, b) then quotient, rest = quotient + 1, rest - b end
  return quotient, rest
end

local function is_leap(year) return year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0) end

-- Returns the parts of a time in seconds since 1970.
local function split(at)
  local days, seconds = divided(at - ZERO, DAY)
  local cycles, rest = days // 146097, days % 146097
  local centuries = rest // 36524
  if centuries > 3 then centuries = 3 end
  rest = rest - centuries * 36524
  local fours = rest // 1461
  rest = rest % 1461
  local years = rest // 365
  if years > 3 then years = 3 end
  rest = rest - years * 365
  local year = ZERO_YEAR + 400 * cycles + 100 * centuries + 4 * fours + years
  local leap = is_leap(year) and 1 or 0
  local month = 12
  while month > 1 and rest < BEFORE[month] + (month > 2 and leap or 0) do month = month - 1 end
  return {
    year = year, month = month, day = rest - BEFORE[month] - (month > 2 and leap or 0) + 1, hour = seconds // 3600,
    min = seconds % 3600 // 60, sec = seconds % 60, weekday = (days + 1) % 7,
  }
end

-- Returns seconds since 1970; each part may be out of its range (time.Date of Go).
local function join(year, month, day, hour, min, sec)
  local function carry(high, low, base) return high + low // base, low % base end
  month = month - 1
  year, month = carry(year, month, 12)
  min, sec = carry(min, sec, 60)
  hour, min = carry(hour, min, 60)
  day, hour = carry(day, hour, 24)
  local cycles, rest = divided(year - ZERO_YEAR, 400)
  local days = cycles * 146097 + rest * 365 + rest // 4 - rest // 100 + BEFORE[month + 1]
  if month >= 2 and is_leap(year) then days = days + 1 end
  return ZERO + (days + day - 1) * DAY + hour * 3600 + min * 60 + sec
end

local function padded(number, width)
  return (number < 0 and "-" or "") .. format("%0" .. width .. "d", abs(number))
end

local function two(name) return function(t) return format("%02d", t[name]) end end
local function hour12(t) return (t.hour + 11) % 12 + 1 end
local function clock(t, separator)
  return format("%02d%s%02d%s%02d", t.hour, separator, t.min, separator, t.sec)
end

local DIRECTIVES = {
  a = function() return "mon" end, -- gopher-lua has a wrong layout of Go here, and in %x
  A = function(t) return DAYS[t.weekday] end, b = function(t) return sub(MONTHS[t.month], 1, 3) end,
  B = function(t) return MONTHS[t.month] end,
  c = function(t)
    return format("%02d %s %02d %02d:%02d UTC", t.day, sub(MONTHS[t.month], 1, 3), abs(t.year) % 100, t.hour, t.min)
  end,
  d = two("day"), F = function(t) return format("%s-%02d-%02d", padded(t.year, 4), t.month, t.day) end, H = two("hour"),
  I = function(t) return format("%02d", hour12(t)) end, m = two("month"), M = two("min"),
  p = function(t) return t.hour >= 12 and "PM" or "AM" end, P = function(t) return t.hour >= 12 and "pm" or "am" end,
  S = two("sec"), w = function(t) return to_text(t.weekday) end, x = function(t) return clock(t, "/") end,
  X = function(t) return clock(t, ":") end, y = function(t) return format("%02d", abs(t.year) % 100) end,
  Y = function(t) return padded(t.year, 4) end, z = function() return "+0000" end, Z = function() return "UTC" end,
}

local function written(text, t)
  local pieces, position = {}, 1
  while true do
    local from = find(text, "%", position, true)
    if not from then break end
    pieces[#pieces + 1] = sub(text, position, from - 1)
    local letter = sub(text, from + 1, from + 1)
    local directive = DIRECTIVES[letter]
    work(WORK)
    pieces[#pieces + 1] = directive and directive(t) or letter == "%" and "%" or "%" .. letter
    position = from + 2
  end
  pieces[#pieces + 1] = sub(text, position)
  return concat(pieces)
end

local function date(...)
  local n = select("#", ...)
  local text, at = ...
  if n == 0 then text = "%c" end
  if mathtype(text) then text = to_text(text) end
  if type(text) ~= "string" then bad(1, "date", "string", text, 3) end
  if n > 1 then
    if not mathtype(at) then bad(2, "date", "number", at, 3) end
    at = integer(at, 2, "date")
  else
    at = now()
  end
  local t = split(at)
  text = match(text, "^!*(.*)$")
  work(#text)
  if sub(text, 1, 2) ~= "*t" then return written(text, t) end
  local found = plain({})
  found.year, found.month, found.day, found.hour, found.min, found.sec = t.year, t.month, t.day, t.hour, t.min, t.sec
  found.wday, found.yday, found.isdst = t.weekday + 1, 0, false -- gopher-lua does not count the days of the year
  return found
end

-- Returns an integral member of a table. Members of other types, and strings that are no numbers, count as missing.
local function member(t, name, missing)
  local v = get(t, name)
  if type(v) == "string" then
    v = gsub(v, "^ +", "")
    if find(v, "^0") and not find(v, "^0[xX]") then
      v = gsub(v, "^0+", "")
      if v == "" then return 0 end
    end
    v = parsed(v)
  end
  if not mathtype(v) then return missing end
  return integer(v, 1, "time")
end

local function time(...)
  local t = ...
  if t == nil then return now() end
  if type(t) ~= "table" then bad(1, "time", "table", t, 3) end
  return join(
    member(t, "year", -1), member(t, "month", -1), member(t, "day", -1), member(t, "hour", 12), member(t, "min", 0),
    member(t, "sec", 0)
  ) + 0.0
end

parts.times = { time = time, date = date }
