-- Tables of scripts and of documents. Each has a metatable, and is like any other but that it remembers in what order keys
-- were put into it, as gopher-lua's do.

local parts = ...

local setmetatable, getmetatable, rawget, rawset, rawnext = setmetatable, getmetatable, rawget, rawset, next
local type, tostring, error, ipairs, sort = type, tostring, error, ipairs, table.sort
local mathtype, tointeger = math.type, math.tointeger

local HIDDEN = {} -- the key under which a table keeps what it knows of itself
local NULL = {} -- a null in a list

-- OPEN: a script's own; OPEN_MAP and OPEN_LIST: a document's; LAZY_MAP and LAZY_LIST: a document's, not looked into yet.
local OPEN, OPEN_MAP, OPEN_LIST, LAZY_MAP, LAZY_LIST = {}, {}, {}, {}, {}
local is_open = { [OPEN] = true, [OPEN_MAP] = true, [OPEN_LIST] = true }

local function is_next(t, k) -- whether an integer key goes on with the sequence, of which none is among the keys
  if k <= 1 then return k == 1 end
  local mine = rawget(t, HIDDEN)
  return rawget(t, k - 1) ~= nil and not (mine and mine.at and mine.at[k - 1])
end

-- What a table knows of itself: `keys`, those outside of its sequence in order; `at`, where each stands among them. Of a
-- document's own also, in a row, its handle and its members as they were, and `grown`, whether it was given others.
local function knowledge(t)
  local mine = rawget(t, HIDDEN)
  if mine == nil then
    mine = { keys = {}, at = {} }
    rawset(t, HIDDEN, mine)
  elseif mine.at == nil then
    -- Keys that were set, taken away and set again are told twice, and count where they came first.
    local keys, at, told = {}, {}, mine.keys
    if told == nil then
      told = {}
      if getmetatable(t) == OPEN_MAP then
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

local function remember(t, k)
  local mine = knowledge(t)
  local keys, at = mine.keys, mine.at
  if at[k] ~= nil then return end
  local i = #keys + 1
  if mathtype(k) == "integer" then -- in front of names and among themselves in order, as gopher-lua has them
    while i > 1 and (mathtype(keys[i - 1]) ~= "integer" or keys[i - 1] > k) do
      keys[i] = keys[i - 1]
      at[keys[i]] = i
      i = i - 1
    end
  end
  keys[i] = k
  at[k] = i
end

local function set_number(t, k, v)
  if k ~= k then error("table index is NaN", 3) end
  k = tointeger(k) or k
  if mathtype(k) ~= "integer" or not is_next(t, k) then remember(t, k) end
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
OPEN_MAP.__newindex, OPEN_LIST.__newindex = OPEN.__newindex, OPEN.__newindex
for _, meta in ipairs({ OPEN, OPEN_MAP, OPEN_LIST, LAZY_MAP, LAZY_LIST }) do meta.__tostring = text end

local function first_from(t, keys, i)
  while true do
    local k = keys[i]
    if k == nil then return nil end
    local v = rawget(t, k)
    if v ~= nil then return k, v end
    i = i + 1
  end
end

-- next() in order: the sequence, then the other keys as they were put there.
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
    if mathtype(k) ~= "integer" then error("invalid key to 'next'", 2) end
    i = k
  end
  local v = rawget(t, i + 1)
  if v ~= nil and not (mine and mine.at[i + 1]) then return i + 1, v end
  if mine then return first_from(t, mine.keys, 1) end
end

local function ordered_pairs(t)
  if type(t) ~= "table" then error("bad argument #1 to 'pairs' (table expected, got " .. type(t) .. ")", 2) end
  return successor, t, nil
end

local function plain_table(t) return setmetatable(t, OPEN) end

-- A constructor with keys: those that its text names, in order, and whether there are others than names.
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
  -- Keys that only running it tells are in the order of their texts.
  sort(rest, function(a, b) return tostring(a) < tostring(b) end)
  for _, k in ipairs(rest) do add(k) end
  return t
end

parts.tables = {
  HIDDEN = HIDDEN, NULL = NULL, OPEN = OPEN, OPEN_MAP = OPEN_MAP, OPEN_LIST = OPEN_LIST, LAZY_MAP = LAZY_MAP,
  LAZY_LIST = LAZY_LIST, is_open = is_open, successor = successor, ordered_pairs = ordered_pairs, plain = plain_table,
  ordered = ordered_table,
}
