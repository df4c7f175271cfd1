-- The table library with gopher-lua's behavior.

local parts = ...

local tables, texts, numbers = parts.tables, parts.texts, parts.numbers
local work = parts.limits.work
local OPEN, HIDDEN = tables.OPEN, tables.HIDDEN
local integer, number_text, bad = numbers.integer, texts.number_text, numbers.bad
local getmetatable, rawget, rawset, rawlen = getmetatable, rawget, rawset, rawlen
local type, error, select, mathtype = type, error, select, math.type
local unpack, insert, remove, concat = table.unpack, table.insert, table.remove, table.concat

local MAX_VALUES = 8000 -- results of a function

local function checked(t, name)
  if type(t) ~= "table" then bad(1, name, "table", t) end
  return t
end

local function unpack_(t, i, j)
  checked(t, "unpack")
  i = i == nil and 1 or integer(i, 2, "unpack")
  j = j == nil and #t or integer(j, 3, "unpack")
  if j - i >= MAX_VALUES then error("too many results to unpack", 2) end
  return unpack(t, i, j)
end

local function insert_(t, ...)
  local at, v = ...
  if v == nil and at ~= nil and getmetatable(t) == OPEN and rawget(t, HIDDEN) == nil then -- fast path: append
    if select("#", ...) == 1 then
      rawset(t, rawlen(t) + 1, at)
      return
    end
  end
  local n = select("#", ...)
  if n == 0 then error("wrong number of arguments to 'insert'", 2) end
  local length = #checked(t, "insert")
  if n == 1 then
    if at ~= nil then t[length + 1] = at end
    return
  end
  at = integer(at, 2, "insert")
  if at < 1 or at > length then
    t[at] = v
  else
    if length - at <= 500 and v ~= nil then return insert(t, at, v) end
    for i = length, at, -1 do t[i + 1] = t[i] end
    if v == nil then tables.clear(t, at) else t[at] = v end
  end
end

-- A position below 1 means the last element.
local function remove_(t, ...)
  local length = #checked(t, "remove")
  if length == 0 then return nil end
  if select("#", ...) == 0 then return remove(t) end
  local at = integer((...), 2, "remove")
  if at > length then return nil end
  if at < 1 then at = length end
  if length - at <= 500 then return remove(t, at) end
  local v = t[at]
  for i = at, length - 1 do t[i] = t[i + 1] end
  t[length] = nil
  return v
end

local function less(a, b) return a < b end

-- Insert an element into the sorted elements before it.
local function insert_sorted(t, from, to, by)
  for i = from + 1, to do
    local v, j = t[i], i - 1
    while j >= from and by(v, t[j]) do
      t[j + 1] = t[j]
      j = j - 1
    end
    t[j + 1] = v
  end
end

local function merge(from, into, first, middle, last, by)
  local i, j = first, middle + 1
  for k = first, last do
    if i <= middle and (j > last or not by(from[j], from[i])) then
      into[k] = from[i]
      i = i + 1
    else
      into[k] = from[j]
      j = j + 1
    end
  end
end

-- A stable sort. Go's sort.Sort is also stable for lists of up to 12 elements; for longer lists its order of equal elements
-- is unspecified.
local RUN = 12
local function sort_(t, ...)
  checked(t, "sort")
  local by = less
  if select("#", ...) > 0 then
    by = (...)
    if type(by) ~= "function" then bad(2, "sort", "function", by, 3) end
  end
  local n, from, into = #t, {}, {}
  for i = 1, n do from[i] = t[i] end
  for first = 1, n, RUN do insert_sorted(from, first, first + RUN - 1 < n and first + RUN - 1 or n, by) end
  local width = RUN
  while width < n do
    for first = 1, n, 2 * width do
      local middle, last = first + width - 1, first + 2 * width - 1
      merge(from, into, first, middle < n and middle or n, last < n and last or n, by)
    end
    from, into = into, from
    width = 2 * width
  end
  for i = 1, n do t[i] = from[i] end
end

local function pieces_of(t, i, j)
  local pieces
  for k = i, j do
    local v = t[k]
    if mathtype(v) == "float" then
      if not pieces then
        pieces = {}
        for m = i, k - 1 do pieces[m - i + 1] = t[m] end
      end
      v = number_text(v)
    elseif type(v) ~= "string" and not mathtype(v) then
      error("invalid value (" .. type(v) .. ") at index " .. k .. " in table for concat", 3)
    end
    if pieces then pieces[k - i + 1] = v end
  end
  return pieces
end

local function concat_(t, separator, ...)
  local n = #checked(t, "concat")
  if separator ~= nil and type(separator) ~= "string" then bad(2, "concat", "string", separator, 3) end
  local i, j = ...
  i = i == nil and 1 or integer(i, 3, "concat")
  j = j == nil and n or integer(j, 4, "concat")
  if select("#", ...) == 1 and (i > n or i < 1) then return "" end
  if i > n then i = n end
  if i < 1 then i = 1 end
  if j > n then j = n end
  if i > j then return "" end
  if i == j and mathtype(t[i]) then return t[i] end -- gopher-lua returns a single number unchanged
  local pieces = pieces_of(t, i, j)
  local found
  if pieces then found = concat(pieces, separator) else found = concat(t, separator, i, j) end
  work(#found)
  return found
end

local function length(t) return #checked(t, "getn") end

parts.arrays = {
  concat = concat_, insert = insert_, remove = remove_, sort = sort_, unpack = unpack_, getn = length, maxn = length,
}
