-- Tables of scripts and of documents. Each has a metatable that makes it remember the order of its keys, as gopher-lua's
-- tables do.

local parts = ...

local setmetatable, getmetatable, rawget, rawset, rawnext, rawlen = setmetatable, getmetatable, rawget, rawset, next, rawlen
local type, tostring, error, ipairs, sort = type, tostring, error, ipairs, table.sort
local mathtype, tointeger = math.type, math.tointeger

local HIDDEN = {} -- the key of a table's own record
local NULL = {} -- a null in a list

-- OPEN: a table of a script; OPEN_MAP and OPEN_LIST: tables of a document; LAZY_MAP and LAZY_LIST: unopened ones.
local OPEN, OPEN_MAP, OPEN_LIST, LAZY_MAP, LAZY_LIST = {}, {}, {}, {}, {}
-- The same for tables with positive integer keys outside their sequence. Their length is the largest of these keys, because
-- gopher-lua keeps all of them in one array.
local SPARSE, SPARSE_MAP, SPARSE_LIST = {}, {}, {}
local sparse = { [OPEN] = SPARSE, [OPEN_MAP] = SPARSE_MAP, [OPEN_LIST] = SPARSE_LIST }
-- The metatable of a table without the difference between sparse and other tables; nil for tables that are not open.
local is_open = {
  [OPEN] = OPEN, [OPEN_MAP] = OPEN_MAP, [OPEN_LIST] = OPEN_LIST,
  [SPARSE] = OPEN, [SPARSE_MAP] = OPEN_MAP, [SPARSE_LIST] = OPEN_LIST,
}
local MAX_INDEX = 67108864 -- gopher-lua's MaxArrayIndex

local function is_next(t, k) -- whether an integer key continues the sequence
  if k <= 1 then return k == 1 end
  local mine = rawget(t, HIDDEN)
  return rawget(t, k - 1) ~= nil and not (mine and mine.at and mine.at[k - 1])
end

-- The record of a table: `keys`, the ordered keys outside its sequence, and `at`, their positions. The record of a document's
-- table also has, in a row, its handle and its original members, and `grown`, whether the script added members.
local function knowledge(t)
  local mine = rawget(t, HIDDEN)
  if mine == nil then
    mine = { keys = {}, at = {} }
    rawset(t, HIDDEN, mine)
  elseif mine.at == nil then
    -- A key that was set, removed and set again appears twice; its first position counts.
    local keys, at, told = {}, {}, mine.keys
    if told == nil then
      told = {}
      if is_open[getmetatable(t)] == OPEN_MAP then
        for i = 2, #mine, 2 do told[#told + 1] = mine[i] end
      end
    end
    for i = 1, #told do
      local k = told[i]
      if at[k] == nil then
        keys[#keys + 1] = k
        at[k] = #keys
      end
    end
    mine.keys, mine.at = keys, at
  end
  return mine
end

local function is_index(k) return mathtype(k) == "integer" and k >= 1 and k < MAX_INDEX end

local function remember(t, k)
  local mine = knowledge(t)
  local keys, at = mine.keys, mine.at
  if at[k] ~= nil then return end
  local i = #keys + 1
  if is_index(k) then -- indices are sorted and come before other keys, as in gopher-lua
    while i > 1 and (not is_index(keys[i - 1]) or keys[i - 1] > k) do
      keys[i] = keys[i - 1]
      at[keys[i]] = i
      i = i - 1
    end
    local meta = getmetatable(t)
    if sparse[meta] then setmetatable(t, sparse[meta]) end
  end
  keys[i] = k
  at[k] = i
end

-- The length of a table with indices beyond its sequence.
local function sparse_length(t)
  local keys, i = rawget(t, HIDDEN).keys, 0
  local last = rawlen(t)
  while is_index(keys[i + 1]) do i = i + 1 end
  while i > 0 do
    local k = keys[i]
    if rawget(t, k) ~= nil then return k > last and k or last end
    i = i - 1
  end
  return last
end

-- t[k] = nil: elements after the hole stay in the table, for pairs and for its length.
local function clear(t, k)
  if type(t) ~= "table" then error("attempt to index a " .. type(t) .. " value", 2) end
  local i = mathtype(k) and tointeger(k)
  if i and i >= 1 then
    local meta = getmetatable(t)
    if meta == LAZY_LIST or meta == LAZY_MAP then parts.open(t) end
    if is_open[getmetatable(t)] and rawget(t, i) ~= nil then
      local mine = rawget(t, HIDDEN)
      local at = mine and mine.at
      if not (at and at[i]) then
        local j = i + 1
        while rawget(t, j) ~= nil and not (at and at[j]) do
          remember(t, j)
          at = rawget(t, HIDDEN).at
          j = j + 1
        end
      end
    end
  end
  t[k] = nil
end

local function set_number(t, k, v)
  if k ~= k then error("table index is NaN", 3) end
  k = tointeger(k) or k
  if not is_index(k) or not is_next(t, k) then remember(t, k) end
  rawset(t, k, v)
  local mine = rawget(t, HIDDEN)
  if mine then mine.grown = true end
end

function OPEN.__newindex(t, k, v)
  if v == nil then return end
  if mathtype(k) then return set_number(t, k, v) end
  if k == nil then error("table index is nil", 2) end
  local mine = rawget(t, HIDDEN)
  if mine == nil then
    rawset(t, HIDDEN, { keys = { k } })
  else
    mine.grown = true
    local keys, at = mine.keys, mine.at
    if keys == nil then
      remember(t, k)
    elseif at == nil then
      keys[#keys + 1] = k
    elseif at[k] == nil then
      local n = #keys + 1
      keys[n], at[k] = k, n
    end
  end
  rawset(t, k, v)
end

local function text() return "table" end
for meta in rawnext, is_open do meta.__newindex = OPEN.__newindex end
for meta, sparse_meta in rawnext, sparse do
  meta.__tostring, sparse_meta.__tostring, sparse_meta.__len = text, text, sparse_length
end
LAZY_MAP.__tostring, LAZY_LIST.__tostring = text, text

local function first_from(t, keys, i)
  while true do
    local k = keys[i]
    if k == nil then return nil end
    local v = rawget(t, k)
    if v ~= nil then return k, v end
    i = i + 1
  end
end

-- next() in order: the sequence, then the other keys in the order of insertion.
local function successor(t, k)
  if type(t) ~= "table" then error("bad argument #1 to 'next' (table expected, got " .. type(t) .. ")", 2) end
  local meta = getmetatable(t)
  if meta == LAZY_MAP or meta == LAZY_LIST then parts.open(t) end
  if not is_open[getmetatable(t)] then return rawnext(t, k) end -- libraries and the globals
  local mine = rawget(t, HIDDEN)
  if mine and mine.at == nil then mine = knowledge(t) end
  local i = 0
  if k ~= nil then
    if mathtype(k) == "float" then k = tointeger(k) or k end
    local at = mine and mine.at[k]
    if at then return first_from(t, mine.keys, at + 1) end
    if not is_index(k) then error("invalid key to 'next'", 2) end
    i = k
  end
  local v = rawget(t, i + 1)
  if v ~= nil and not (mine and mine.at[i + 1]) then return i + 1, v end
  if mine then return first_from(t, mine.keys, 1) end
  return nil
end

local function ordered_pairs(t)
  if type(t) ~= "table" then error("bad argument #1 to 'pairs' (table expected, got " .. type(t) .. ")", 2) end
  return successor, t, nil
end

local function plain_table(t) return setmetatable(t, OPEN) end

-- A constructor with keys: its literal keys in order, and whether it has computed keys.
local function ordered_table(t, computed, ...)
  if not computed then
    t[HIDDEN] = { keys = { ... } }
    return setmetatable(t, OPEN)
  end
  local n, rest = 0, {}
  while t[n + 1] ~= nil do n = n + 1 end
  setmetatable(t, OPEN)
  local function add(k)
    if t[k] ~= nil and not (mathtype(k) == "integer" and k >= 1 and k <= n) then remember(t, k) end
  end
  for _, k in ipairs({ ... }) do add(k) end
  for k in rawnext, t do
    if k ~= HIDDEN then rest[#rest + 1] = k end
  end
  -- Computed keys are in the order of their texts.
  sort(rest, function(a, b) return tostring(a) < tostring(b) end)
  for _, k in ipairs(rest) do add(k) end
  return t
end

-- A constructor with literal nil elements.
local function holed_table(t, n)
  local i = 1
  setmetatable(t, OPEN)
  while i <= n and rawget(t, i) ~= nil do i = i + 1 end
  for k = i + 1, n do
    if rawget(t, k) ~= nil then remember(t, k) end
  end
  return t
end

parts.tables = {
  HIDDEN = HIDDEN, NULL = NULL, OPEN = OPEN, OPEN_MAP = OPEN_MAP, OPEN_LIST = OPEN_LIST, LAZY_MAP = LAZY_MAP,
  LAZY_LIST = LAZY_LIST, is_open = is_open, successor = successor, ordered_pairs = ordered_pairs, plain = plain_table,
  ordered = ordered_table, holed = holed_table, clear = clear,
}
