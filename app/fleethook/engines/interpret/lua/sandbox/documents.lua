-- Documents as tables that open level by level: the host sends a level when the script first accesses it.

local parts = ...

local open_level, open_whole = parts.host.level, parts.host.whole
local limits, tables = parts.limits, parts.tables
local room = limits.room
local HIDDEN, NULL, OPEN_MAP, OPEN_LIST = tables.HIDDEN, tables.NULL, tables.OPEN_MAP, tables.OPEN_LIST
local LAZY_MAP, LAZY_LIST = tables.LAZY_MAP, tables.LAZY_LIST
local setmetatable, getmetatable, rawget, rawlen, ipairs, move = setmetatable, getmetatable, rawget, rawlen, ipairs, table.move

local MAP, LIST = {}, {} -- the markers of objects and arrays in messages of the host
local function make_map(handle) return setmetatable({ [HIDDEN] = handle }, LAZY_MAP) end
local function make_list(handle) return setmetatable({ nil, nil, nil, nil, [HIDDEN] = handle }, LAZY_LIST) end
local makers = { [MAP] = make_map, [LIST] = make_list, [NULL] = false }

-- Stores the members of one message in `t`, which has no metatable meanwhile. Returns the position of the next message, and
-- the handle with the members in a row. Nested objects and arrays are unopened tables.
local function place_level(t, is_list, base, start, more, ...)
  local values, makers = { ... }, makers
  if is_list then
    start = start - 1
    for i = 2, #values do
      local v = values[i]
      local make = makers[v]
      if make then
        v = make(base)
        base = base + 1
        values[i] = v
      end
      t[start + i] = v
    end
  else
    for i = 2, #values, 2 do
      local v = values[i + 1]
      local make = makers[v]
      if make == nil then
        t[values[i]] = v
      elseif make then
        v = make(base)
        base = base + 1
        values[i + 1] = v
        t[values[i]] = v
      end
    end
  end
  return more, values
end

local function open(t)
  room()
  local handle, is_list = rawget(t, HIDDEN), getmetatable(t) == LAZY_LIST
  setmetatable(t, nil)
  local more, level = place_level(t, is_list, open_level(handle, 0))
  while more do
    local values
    more, values = place_level(t, is_list, open_level(handle, more))
    move(values, 2, #values, #level + 1, level)
    room()
  end
  t[HIDDEN] = level
  setmetatable(t, is_list and OPEN_LIST or OPEN_MAP)
end

-- Scripts read some arrays completely, such as the statuses of all clusters. These open with all nested values, because
-- opening them level by level takes a message for each of hundreds of small tables.
local opening -- the handle of the next document

local builders = { [NULL] = false }

local function build(values, i)
  local v = values[i]
  local builder = builders[v]
  if builder then return builder(values, i + 2, values[i + 1]) end
  return v, i + 1
end

builders[MAP] = function(values, i, n)
  local t, level, m = {}, { opening }, 1
  opening = opening + 1
  for _ = 1, n do
    local k, v = values[i], values[i + 1]
    local builder = builders[v]
    i = i + 2
    if builder then v, i = builder(values, i + 1, values[i]) end
    if builder ~= false then t[k] = v end
    level[m + 1], level[m + 2] = k, v
    m = m + 2
  end
  t[HIDDEN] = level
  return setmetatable(t, OPEN_MAP), i
end

builders[LIST] = function(values, i, n)
  local t, level = {}, { opening }
  opening = opening + 1
  for j = 1, n do
    local v
    v, i = build(values, i)
    t[j], level[j + 1] = v, v
  end
  t[HIDDEN] = level
  return setmetatable(t, OPEN_LIST), i
end

local function message(base, more, ...)
  opening = base
  return more, { ... }
end

local function opened_whole(handle)
  local t, level, from = {}, { handle }, 0
  limits.unwatch() -- the hook would slow this loop; `limits.count` counts its values instead
  repeat
    room()
    local more, values = message(open_whole(handle, from))
    local i, n = 1, #values
    limits.count(n)
    while i <= n do
      local v
      v, i = build(values, i)
      t[#t + 1] = v
      level[#level + 1] = v
    end
    from = more
  until not from
  t[HIDDEN] = level
  limits.watch()
  return setmetatable(t, OPEN_LIST)
end

local function index(t, k)
  open(t)
  return rawget(t, k)
end
local function newindex(t, k, v)
  open(t)
  t[k] = v
end
local function length(t)
  open(t)
  return rawlen(t)
end
for _, meta in ipairs({ LAZY_MAP, LAZY_LIST }) do
  meta.__index, meta.__newindex, meta.__len = index, newindex, length
end

parts.open = open
parts.documents = { MAP = MAP, LIST = LIST, map = make_map, list = make_list, whole = opened_whole }
