-- Lua's patterns (Lua 5.4 reference manual, 6.4.1). C's matcher cannot be interrupted, so it only runs patterns that are
-- certain to be fast. Other patterns run in a matcher in Lua, which the limits of a call interrupt.

local parts = ...

local byte, sub, find, match, gmatch, gsub = string.byte, string.sub, string.find, string.match, string.gmatch, string.gsub
local type, tostring, select, error, pcall, mathtype = type, tostring, select, error, pcall, math.type
local tonumber, concat, unpack = tonumber, table.concat, table.unpack

local work, to_text, integer = parts.limits.work, parts.texts.to_text, parts.numbers.integer

local STEPS = 200000 -- the limit for C's matcher
local SPECIAL = "[%^%$%*%+%?%.%(%)%[%]%%%-]"

local function text(v, position, name)
  if type(v) == "string" then return v end
  if type(v) == "number" then return to_text(v) end
  local got = v == nil and "no value" or type(v)
  error("bad argument #" .. position .. " to '" .. name .. "' (string expected, got " .. got .. ")", 3)
end

-- Returns whether C's matcher takes few steps: each repetition multiplies the steps by the length of the string.
local function quick(n, p)
  local length = #p
  if length > 200 then return false end
  local steps, i = (n + 1) * (length + 1), 1
  if byte(p, 1) == 94 then steps = length + 1 end
  while i <= length do
    local c = byte(p, i)
    if c == 37 then -- %
      local d = byte(p, i + 1)
      if d == 98 or (d and d >= 48 and d <= 57) then steps = steps * (n + 1) end
      i = i + 1
    elseif c == 91 then -- [
      i = i + 1
      if byte(p, i) == 94 then i = i + 1 end
      repeat
        if byte(p, i) == 37 then i = i + 1 end
        i = i + 1
      until i > length or byte(p, i) == 93
    elseif c == 42 or c == 43 or c == 45 then -- * + -
      steps = steps * (n + 1)
    elseif c == 63 then -- ?
      steps = steps * 2
    end
    if steps > STEPS then return false end
    i = i + 1
  end
  return true
end

local class_sets = {
  [97] = "%a", [99] = "%c", [100] = "%d", [103] = "%g", [108] = "%l", [112] = "%p", [115] = "%s", [117] = "%u",
  [119] = "%w", [120] = "%x",
}
local characters = {}
for i = 0, 255 do characters[i] = string.char(i) end
local classes = {}
for c, set in next, class_sets do
  local members, others = {}, {}
  for i = 0, 255 do
    members[i] = match(characters[i], set) ~= nil
    others[i] = not members[i]
  end
  classes[c], classes[c - 32] = members, others
end

local function in_class(c, class)
  local members = classes[class]
  if members then return members[c] end
  return class == c
end

local function class_end(p, i)
  local c = byte(p, i)
  if c == nil then error("malformed pattern (ends with '%')", 0) end
  i = i + 1
  if c == 37 then
    if i > #p then error("malformed pattern (ends with '%')", 0) end
    return i + 1
  end
  if c == 91 then
    if byte(p, i) == 94 then i = i + 1 end
    repeat
      if i > #p then error("malformed pattern (missing ']')", 0) end
      local d = byte(p, i)
      i = i + 1
      if d == 37 then i = i + 1 end
    until byte(p, i) == 93
    return i + 1
  end
  return i
end

local function in_set(c, p, i, last) -- p[i] is '[', p[last] is ']'
  local yes = true
  i = i + 1
  if byte(p, i) == 94 then
    yes = false
    i = i + 1
  end
  while i < last do
    local d = byte(p, i)
    if d == 37 then
      i = i + 1
      if in_class(c, byte(p, i)) then return yes end
      i = i + 1
    elseif byte(p, i + 1) == 45 and i + 2 < last then
      if d <= c and c <= byte(p, i + 2) then return yes end
      i = i + 3
    else
      if d == c then return yes end
      i = i + 1
    end
  end
  return not yes
end

local function single(c, p, i, ends)
  if c == nil then return false end
  local d = byte(p, i)
  if d == 46 then return true end
  if d == 37 then return in_class(c, byte(p, i + 1)) end
  if d == 91 then return in_set(c, p, i, ends - 1) end
  return d == c
end

local do_match

local function capture(state, level)
  local c = state[level]
  if c == nil then error("invalid capture index", 0) end
  if c.length == -1 then error("unfinished capture", 0) end
  if c.length == -2 then return c.from end
  return sub(state.s, c.from, c.from + c.length - 1)
end

local function balanced(s, i, p, j)
  local opening, closing = byte(p, j), byte(p, j + 1)
  if closing == nil then error("malformed pattern (missing arguments to '%b')", 0) end
  if byte(s, i) ~= opening then return nil end
  local depth, at = 1, i + 1
  while at <= #s do
    local c = byte(s, at)
    if c == closing then
      depth = depth - 1
      if depth == 0 then return at + 1 end
    elseif c == opening then
      depth = depth + 1
    end
    at = at + 1
  end
  return nil
end

-- Matches p from j with s from i; returns the end of the match.
function do_match(state, i, j)
  local s, p = state.s, state.p
  while true do
    if j > #p then return i end
    local c = byte(p, j)
    if c == 40 then -- (
      local position = byte(p, j + 1) == 41
      local level = state.level + 1
      state.level = level
      state[level] = { from = i, length = position and -2 or -1 }
      local ends = do_match(state, i, position and j + 2 or j + 1)
      if ends == nil then state.level = level - 1 end
      return ends
    elseif c == 41 then -- )
      local level = state.level
      while level > 0 and state[level].length ~= -1 do level = level - 1 end
      if level == 0 then error("invalid pattern capture", 0) end
      state[level].length = i - state[level].from
      local ends = do_match(state, i, j + 1)
      if ends == nil then state[level].length = -1 end
      return ends
    elseif c == 36 and j == #p then -- $
      return i == #s + 1 and i or nil
    end
    local d = c == 37 and byte(p, j + 1)
    if d == 98 then -- %b
      i = balanced(s, i, p, j + 2)
      if i == nil then return nil end
      j = j + 4
    elseif d == 102 then -- %f
      j = j + 2
      if byte(p, j) ~= 91 then error("missing '[' after '%f' in pattern", 0) end
      local ends = class_end(p, j)
      local before, here = i > 1 and byte(s, i - 1) or 0, byte(s, i) or 0
      if in_set(before, p, j, ends - 1) or not in_set(here, p, j, ends - 1) then return nil end
      j = ends
    elseif d and d >= 48 and d <= 57 then -- back reference
      local level = d - 48
      if level == 0 or level > state.level or state[level].length == -1 then error("invalid capture index %" .. level, 0) end
      local again = tostring(capture(state, level))
      if sub(s, i, i + #again - 1) ~= again then return nil end
      i = i + #again
      j = j + 2
    else
      local ends = class_end(p, j)
      local e = byte(p, ends)
      if e == 63 then -- ?
        if single(byte(s, i), p, j, ends) then
          local found = do_match(state, i + 1, ends + 1)
          if found then return found end
        end
        j = ends + 1
      elseif e == 42 or e == 43 then -- * +
        local n = 0
        while single(byte(s, i + n), p, j, ends) do n = n + 1 end
        local least = e == 43 and 1 or 0
        while n >= least do
          local found = do_match(state, i + n, ends + 1)
          if found then return found end
          n = n - 1
        end
        return nil
      elseif e == 45 then -- -
        while true do
          local found = do_match(state, i, ends + 1)
          if found then return found end
          if not single(byte(s, i), p, j, ends) then return nil end
          i = i + 1
        end
      else
        if not single(byte(s, i), p, j, ends) then return nil end
        i, j = i + 1, ends
      end
    end
  end
end

local function captures(state, from, to, whole)
  local n = state.level
  if n == 0 then
    if whole then return sub(state.s, from, to) end
    return
  end
  local found = {}
  for level = 1, n do found[level] = capture(state, level) end
  return unpack(found, 1, n)
end

local function starting(s, init, name)
  if init == nil then return 1 end
  init = integer(init, 3, name)
  if init < 0 then init = #s + init + 1 end
  if init < 1 then init = 1 end
  return init
end

local function search(s, p, init)
  local state = { s = s, p = p, level = 0 }
  local anchored = byte(p, 1) == 94
  local i = init
  repeat
    state.level = 0
    local ends = do_match(state, i, anchored and 2 or 1)
    if ends then return i, ends - 1, state end
    i = i + 1
  until anchored or i > #s + 1
end

local function loudly(found, ...)
  if not found then error((...), 3) end
  return ...
end

local function plain(s, p, init)
  local n, m = #s, #p
  work(n - init + m)
  if n * m < 10000000 then return find(s, p, init, true) end
  local window = 10000000 // m + 1 -- C compares at most window * m bytes between two checks of the limits
  while init <= n - m + 1 do
    work(10000000)
    local from, to = find(sub(s, init, init + window + m - 2), p, 1, true)
    if from then return init + from - 1, init + to - 1 end
    init = init + window
  end
end

local patterns = {}

function patterns.find(s, p, ...)
  s, p = text(s, 1, "find"), text(p, 2, "find")
  if p == "" then return 1, 0 end
  local init, is_plain = ...
  local from = starting(s, init, "find")
  if from > #s + 1 then return nil end
  if (is_plain and select("#", ...) == 2) or (#p < 1000 and not find(p, SPECIAL)) then return plain(s, p, from) end
  if quick(#s, p) then return find(s, p, from) end
  return loudly(pcall(function()
    local at, to, state = search(s, p, from)
    if at then return at, to, captures(state, at, to, false) end
  end))
end

function patterns.match(s, p, init)
  s, p = text(s, 1, "match"), text(p, 2, "match")
  local from = starting(s, init, "match")
  if from > #s + 1 then return nil end
  if quick(#s, p) then return match(s, p, from) end
  return loudly(pcall(function()
    local at, to, state = search(s, p, from)
    if at then return captures(state, at, to, true) end
  end))
end

-- Returns whether a pattern may match the empty string. Lua 5.4 does not allow an empty match directly after another match;
-- gopher-lua and this matcher do.
local function may_be_empty(p)
  return find(p, "%f", 1, true) ~= nil or byte(p, 1) == 94 or match("", p) ~= nil
end

-- Returns an iterator over all matches of a pattern.
local function matches(s, p)
  local is_quick, anchored, i = quick(#s, p), byte(p, 1) == 94, 1
  return function()
    if i > #s + 1 then return nil end
    local from, to, state, captured
    if is_quick then
      captured = { find(s, p, i) }
      from, to = captured[1], captured[2]
    else
      from, to, state = search(s, p, i)
    end
    if not from or anchored then i = #s + 2 else i = to >= from and to + 1 or from + 1 end
    return from, to, state, captured
  end
end

local function values_of(s, from, to, state, captured)
  if state then return captures(state, from, to, true) end
  if captured[3] == nil then return sub(s, from, to) end
  return unpack(captured, 3)
end

function patterns.gmatch(s, p)
  s, p = text(s, 1, "gmatch"), text(p, 2, "gmatch")
  if quick(#s, p) and not may_be_empty(p) then return gmatch(s, p) end
  local step = matches(s, p)
  return function()
    local from, to, state, captured = step()
    if from then return values_of(s, from, to, state, captured) end
  end
end

local function expanded(state, replacement, from, to)
  local pieces, position = {}, 1
  while true do
    local at = find(replacement, "%", position, true)
    if not at then break end
    pieces[#pieces + 1] = sub(replacement, position, at - 1)
    local c = sub(replacement, at + 1, at + 1)
    if c == "%" then
      pieces[#pieces + 1] = "%"
    elseif c == "0" then
      pieces[#pieces + 1] = sub(state.s, from, to)
    elseif match(c, "^%d$") then
      local level = tonumber(c)
      local value
      if state.given then
        value = state.given[level + 2]
        if value == nil and level > 1 then error("invalid capture index", 0) end
      elseif level ~= 1 or state.level > 0 then
        value = capture(state, level)
      end
      pieces[#pieces + 1] = value == nil and sub(state.s, from, to) or tostring(value)
    else
      error("invalid use of '%' in replacement string", 0)
    end
    position = at + 2
  end
  pieces[#pieces + 1] = sub(replacement, position)
  return concat(pieces)
end

function patterns.gsub(s, p, replacement, most)
  local given = s
  s, p = text(s, 1, "gsub"), text(p, 2, "gsub")
  local kind = type(replacement)
  if kind ~= "string" and kind ~= "table" and kind ~= "function" then
    error("bad argument #3 to 'gsub' (string/function/table expected, got " .. kind .. ")", 2)
  end
  if most ~= nil then
    most = integer(most, 4, "gsub")
    if most < 0 then most = nil end
  end
  -- Lua 5.4 refuses an escape of any other character, gopher-lua keeps it.
  if kind == "string" then
    replacement = gsub(replacement, "%%(.?)", function(c)
      if not find(c, "^[%d%%]$") then return "%%" .. c end
    end)
  end
  if kind == "string" and quick(#s, p) and not may_be_empty(p) then
    local result, n = gsub(s, p, replacement, most)
    return n == 0 and given or result, n
  end
  return loudly(pcall(function()
    local pieces, last, n = {}, 1, 0
    for from, to, state, captured in matches(s, p) do
      if most and n >= most then break end
      n = n + 1
      local value
      if kind == "string" then
        state = state or { s = s, level = 0, given = captured }
        value = expanded(state, replacement, from, to)
      elseif kind == "table" then
        value = replacement[(values_of(s, from, to, state, captured))]
      else
        value = replacement(values_of(s, from, to, state, captured))
      end
      if mathtype(value) then value = to_text(value) end
      if value and type(value) ~= "string" then value = "" end
      pieces[#pieces + 1] = sub(s, last, from - 1)
      pieces[#pieces + 1] = value or sub(s, from, to)
      last = to + 1
    end
    if n == 0 then return given, 0 end
    pieces[#pieces + 1] = sub(s, last)
    return concat(pieces), n
  end))
end

parts.patterns = patterns
