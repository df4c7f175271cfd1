-- The libraries that scripts have. Functions of C that can take long, or know too much, have something in front of them.

local parts = ...

local patterns, tables, texts = parts.patterns, parts.tables, parts.texts
local OPEN, HIDDEN, successor = tables.OPEN, tables.HIDDEN, tables.successor
local whole, to_text, numbered = texts.whole, texts.to_text, texts.numbered
local getmetatable, rawget, rawset, rawlen = getmetatable, rawget, rawset, rawlen
local type, tostring, tonumber, error, select, pcall = type, tostring, tonumber, error, select, pcall
local mathtype, tointeger, math, string, os = math.type, math.tointeger, math, string, os
local unpack, insert, remove, sort, concat = table.unpack, table.insert, table.remove, table.sort, table.concat
local format, rep, sub, find = string.format, string.rep, string.sub, string.find

local function unpack_(t, i, j)
  i, j = i or 1, j or #t
  if j - i >= 8000 then error("too many results to unpack", 2) end
  return unpack(t, i, j)
end

local function insert_(t, ...)
  local v, more = ...
  if more == nil and v ~= nil and getmetatable(t) == OPEN and rawget(t, HIDDEN) == nil then -- the usual: to the end
    rawset(t, rawlen(t) + 1, v)
    return
  end
  if select("#", ...) == 2 and type(t) == "table" then
    local at, v = ...
    local n = #t
    if mathtype(at) and n - at > 500 and at >= 1 then
      for i = n, at, -1 do t[i + 1] = t[i] end
      t[at] = v
      return
    end
  end
  return insert(t, ...)
end

local function remove_(t, at)
  if at ~= nil and type(t) == "table" then
    local n = #t
    if mathtype(at) and n - at > 500 and at >= 1 then
      local v = t[at]
      for i = at, n - 1 do t[i] = t[i + 1] end
      t[n] = nil
      return v
    end
    return remove(t, at)
  end
  return remove(t)
end

-- Calls that go through C and back. They are counted: where C's stack is used up the hook could not be called, and no
-- limit would be seen.
local within, MOST_WITHIN = 0, 50
local TOO_DEEP = "stack overflow: calls within pcall, sort or gsub are more than 50 deep"

local function leave(was, ...)
  within = was
  return ...
end

local function enter()
  if within >= MOST_WITHIN then error(TOO_DEEP, 0) end
  within = within + 1
  return within - 1
end

local function pcall_(f, ...)
  if within >= MOST_WITHIN then return false, TOO_DEEP end
  return leave(enter(), pcall(f, ...))
end

-- The handler is called when the error has left f, and not where it was raised: there, limits would not be seen.
local function handled(handler, ok, ...)
  if ok then return ok, ... end
  return false, select(2, pcall_(handler, ...))
end

local function xpcall_(f, handler)
  return handled(handler, pcall_(f))
end

local function less(a, b) return a < b end
local function sort_(t, by)
  local was = enter()
  sort(t, by or less)
  within = was
end

local function gsub_(s, p, replacement, most)
  if type(replacement) ~= "function" then return patterns.gsub(s, p, replacement, most) end
  return leave(enter(), patterns.gsub(s, p, replacement, most))
end

local function rep_(s, n, separator)
  if n ~= nil and tonumber(n) and tonumber(n) > 0 and (s == "" and (separator or "") == "") then return "" end
  return rep(s, n, separator)
end

local whole_directives = { d = true, i = true, u = true, c = true, x = true, X = true, o = true }

local function format_(f, ...)
  if type(f) ~= "string" and type(f) ~= "number" then
    error("bad argument #1 to 'format' (string expected, got " .. type(f) .. ")", 2)
  end
  f = tostring(f)
  local values, n, position, number = { ... }, select("#", ...), 1, 0
  local pieces = {}
  while true do
    local from = find(f, "%", position, true)
    if not from then break end
    local _, to, flags, directive = find(sub(f, from, from + 20), "^%%([-+ #0]*%d*%.?%d*)(.)")
    if not to or not find("diucxXoeEfgGqs%", directive, 1, true) then
      error("invalid conversion '%" .. (directive or "") .. "' to 'format'", 2)
    end
    pieces[#pieces + 1] = sub(f, position, from - 1)
    position = from + to
    if directive == "%" then
      pieces[#pieces + 1] = "%"
    else
      number = number + 1
      local v = values[number]
      if number > n then error("bad argument #" .. number + 1 .. " to 'format' (no value)", 2) end
      if directive == "u" then directive = "d" end
      if directive == "s" then
        v = to_text(v)
      elseif whole_directives[directive] and mathtype(tonumber(v)) == "float" then
        v = tonumber(v)
        v = tointeger(v < 0 and math.ceil(v) or math.floor(v)) or v
      end
      local ok, piece = pcall(format, "%" .. flags .. directive, v)
      if not ok then
        error("bad argument #" .. number + 1 .. " to 'format' (" .. directive .. " does not take a " .. type(v) .. ")", 2)
      end
      pieces[#pieces + 1] = piece
    end
  end
  pieces[#pieces + 1] = sub(f, position)
  return concat(pieces)
end

local function concat_(t, separator, i, j)
  if type(t) ~= "table" then error("bad argument #1 to 'concat' (table expected, got " .. type(t) .. ")", 2) end
  return concat(t, separator, i, j)
end

local function refused(name)
  return function() error(name .. " is not there for interpreters", 2) end
end

local libraries = {
  string = {
    byte = string.byte, char = string.char, len = string.len, lower = string.lower, upper = string.upper,
    reverse = string.reverse, sub = sub, rep = rep_, format = format_,
    find = patterns.find, match = patterns.match, gmatch = patterns.gmatch, gfind = patterns.gmatch, gsub = gsub_,
    dump = refused("string.dump"),
  },
  table = {
    concat = concat_, insert = insert_, remove = remove_, sort = sort_, unpack = unpack_,
    getn = function(t) return #t end,
    maxn = function(t)
      local n = 0
      for k in successor, t do
        if type(k) == "number" and k > n then n = k end
      end
      return n
    end,
  },
  math = {
    abs = math.abs, ceil = math.ceil, floor = math.floor, max = math.max, min = math.min, huge = math.huge, pi = math.pi,
    fmod = numbered(math.fmod), mod = numbered(math.fmod), sqrt = numbered(math.sqrt), exp = numbered(math.exp),
    log = numbered(math.log), log10 = function(x) return whole(math.log(x, 10)) end,
    pow = function(x, y) return whole(x ^ y) end, ldexp = function(m, e) return whole(m * 2.0 ^ e) end,
    modf = function(x)
      local a, b = math.modf(x)
      return whole(a), whole(b)
    end,
    sin = math.sin, cos = math.cos, tan = math.tan, asin = math.asin, acos = math.acos, atan = math.atan,
    atan2 = math.atan, deg = math.deg, rad = math.rad, random = math.random, randomseed = math.randomseed,
  },
  -- Karmada's own sandbox has these two: they tell the time and nothing of the machine.
  os = { time = os.time, date = os.date },
}

local base = {
  assert = assert, error = error, ipairs = ipairs, next = successor, pairs = tables.ordered_pairs, pcall = pcall_,
  select = select, type = type, unpack = unpack_, xpcall = xpcall_,
  tonumber = numbered(tonumber), tostring = to_text, _VERSION = "Lua 5.1",
}
for _, name in ipairs({
  "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal", "rawget", "rawset",
  "setfenv", "setmetatable", "module", "newproxy",
}) do
  base[name] = refused(name)
end

parts.libraries = { libraries = libraries, base = base, begin = function() within = 0 end }
