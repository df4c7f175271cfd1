-- os.time and os.date. The work of each directive of a format is counted, because it calls C. gopher-lua (utils.go, strftime)
-- supports these directives and keeps others unchanged.

local parts = ...

local work, integer, bad = parts.limits.work, parts.numbers.integer, parts.numbers.bad
local type, next = type, next
local time, date, find, sub, match = os.time, os.date, string.find, string.sub, string.match
local concat = table.concat
local plain = parts.tables.plain

local WORK = 2000 -- units of work of a directive
local DIRECTIVES = {
  a = "%a", A = "%A", b = "%b", B = "%B", c = "%d %b %y %H:%M %Z", d = "%d", F = "%Y-%m-%d", H = "%H", I = "%I", m = "%m", M = "%M",
  p = "%p", P = "%P", S = "%S", w = "%w", x = "%y/%d/%m", X = "%H:%M:%S", y = "%y", Y = "%Y", z = "%z", Z = "%Z",
}

local function written(format, at, utc)
  local pieces, position = {}, 1
  while true do
    local from = find(format, "%", position, true)
    if not from then break end
    pieces[#pieces + 1] = sub(format, position, from - 1)
    local letter = sub(format, from + 1, from + 1)
    local directive = DIRECTIVES[letter]
    if directive then
      work(WORK)
      pieces[#pieces + 1] = date(utc .. directive, at)
    else
      pieces[#pieces + 1] = letter == "%" and "%" or "%" .. letter
    end
    position = from + 2
  end
  pieces[#pieces + 1] = sub(format, position)
  return concat(pieces)
end

local function date_(format, at)
  if format == nil then format = "%c" end
  if type(format) ~= "string" then bad(1, "date", "string", format, 3) end
  if at ~= nil then at = integer(at, 2, "date") else at = time() end
  local utc = ""
  if sub(format, 1, 1) == "!" then utc, format = "!", match(format, "^!+(.*)$") end
  if sub(format, 1, 2) == "*t" then
    local t = plain({})
    for k, v in next, date(utc .. "*t", at) do t[k] = v end
    return t
  end
  work(#format)
  return written(format, at, utc)
end

parts.times = { time = time, date = date_ }
