-- The libraries of scripts. Functions of C that may take long or reveal the host are wrapped.

local parts = ...

local tables, texts, numbers = parts.tables, parts.texts, parts.numbers
local successor, to_text = tables.successor, texts.to_text
local bad = numbers.bad
local type, error, select, pcall, ipairs = type, error, select, pcall, ipairs

-- The depth of calls through C back into Lua is limited: without space on C's stack, Lua cannot call the hook that checks
-- the limits.
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

local NO_ERROR = "bad argument #1 to 'error' (value expected)"

local function pcall_(...)
  local n = select("#", ...)
  if n == 0 then error("bad argument #1 to 'pcall' (value expected)", 2) end
  if within >= MOST_WITHIN then return false, TOO_DEEP end
  if (...) == error and n == 1 then return false, NO_ERROR end
  return leave(enter(), pcall(...))
end

-- The handler runs after the error has left f. At the place of the error, the hook does not run and limits are not checked.
local function handled(handler, ok, ...)
  if ok then return ok, ... end
  return false, select(2, pcall_(handler, ...))
end

local function xpcall_(f, handler)
  if type(f) ~= "function" then bad(1, "xpcall", "function", f, 3) end
  if type(handler) ~= "function" then bad(2, "xpcall", "function", handler, 3) end
  return handled(handler, pcall_(f))
end

local function assert_(...)
  local v, message = ...
  if v then return ... end
  if message == nil then message = "assertion failed!" end
  if type(message) ~= "string" then bad(2, "assert", "string", message, 3) end
  error(message, 0)
end

local function ipairs_(t)
  if type(t) ~= "table" then bad(1, "ipairs", "table", t, 3) end
  return ipairs(t)
end

function parts.calls_within(f, ...) return leave(enter(), f(...)) end

local function refused(name)
  return function() error(name .. " is not available to interpreters", 2) end
end

parts.strings.dump = refused("string.dump")

local libraries = {
  string = parts.strings, table = parts.arrays, math = numbers.library,
  -- Karmada's sandbox also has these two functions. They reveal only the time.
  os = parts.times,
}

local base = {
  assert = assert_, error = error, ipairs = ipairs_, next = successor, pairs = tables.ordered_pairs, pcall = pcall_,
  select = select, type = type, unpack = parts.arrays.unpack, xpcall = xpcall_,
  tonumber = numbers.to_number, tostring = to_text, _VERSION = "Lua 5.1",
}
for _, name in ipairs({
  "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal", "rawget", "rawset",
  "setfenv", "setmetatable", "module", "newproxy",
}) do
  base[name] = refused(name)
end

parts.libraries = { libraries = libraries, base = base, begin = function() within = 0 end }
