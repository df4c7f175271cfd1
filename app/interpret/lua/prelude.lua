-- What a script lives in. Loaded once into a VM; what it returns is called by app/interpret/lua/vm.py and by nobody else.
--
-- No function or table of this file is reachable from a script but those that `base` and `libraries` name, and of tables
-- a script gets copies, made anew for every call. Documents are opened level by level, when they are looked into: a level
-- that nobody touched is never read, and goes back as the very object it came from.
--
-- In: `patterns`, functions that match patterns and cannot hang; `open_level(handle, from)`,
-- `open_whole(handle, from)`, `give(...)`, `ask(name, ...)`, `late()`, which are the host's. Host functions never raise.

local patterns, open_level, open_whole, give, ask, late = ...

local sethook, getinfo = debug.sethook, debug.getinfo
local clock, memory = os.clock, collectgarbage
local setmetatable, getmetatable, rawget, rawset, rawlen, rawnext = setmetatable, getmetatable, rawget, rawset, rawlen, next
local type, tostring, tonumber, error, select, pcall, xpcall = type, tostring, tonumber, error, select, pcall, xpcall
local mathtype, tointeger = math.type, math.tointeger
local unpack, insert, remove, sort, concat, pack, move =
  table.unpack, table.insert, table.remove, table.sort, table.concat, table.pack, table.move
local format, rep, sub, find, gsub = string.format, string.rep, string.sub, string.find, string.gsub
local load, ipairs, assert, math, string, table, os = load, ipairs, assert, math, string, table, os

local HIDDEN = {} -- the key under which a table keeps what it knows of itself
local NULL = {} -- a null in a list
local LIMIT = {} -- raised when a limit is reached
local MANY = 4000 -- values that go to the host at once
local DEEPEST = 500

-- Limits: a hook looks every EVERY instructions. Once a limit is reached it raises at every instruction, so that no
-- pcall of the script's lives on.

local EVERY = 100 -- instructions
local LARGE = 2048 -- KiB more than there were, from which on single instructions may take long
local large
local ticks, most_ticks, due, soft, failed, place
local collecting = true -- most calls leave little behind: they are not interrupted to look for it
local AT_MOST_LEFT = 8192 -- KiB
local outside = {} -- functions that calls are made by, and not part of

local function user_place(level)
  while true do
    local info = getinfo(level, "Sl")
    if not info then return nil end
    if info.currentline > 0 and sub(info.source, 1, 2) == "=." then
      return sub(info.source, 3) .. ":" .. info.currentline
    end
    level = level + 1
  end
end

local function tick()
  ticks = ticks + 1
  if not failed then
    if ticks > most_ticks then
      failed = "instructions"
    else
      local used = memory("count")
      if used > soft / 2 and not collecting then
        memory("restart")
        collecting = true
      end
      if used > soft then
        memory("collect")
        if memory("count") > soft then failed = "memory" end
      end
      if (ticks % 10 == 0 or used > large) and clock() > due then
        local more = late()
        if more then due = clock() + more else failed = "deadline" end
      end
    end
    if not failed then return end
    place = user_place(3)
    sethook(tick, "", 1)
  elseif outside[getinfo(2, "f").func] then
    return sethook()
  end
  error(LIMIT, 0)
end

local function room()
  if memory("count") > soft then error("not enough memory", 0) end
end

-- Documents and the tables of scripts. Every table of a script has OPEN for its metatable, and is like any other but that
-- it remembers in what order keys were put into it.

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

local MAP, LIST = {}, {} -- what the host sends for an object and an array
local function make_map(handle) return setmetatable({ [HIDDEN] = handle }, LAZY_MAP) end
local function make_list(handle) return setmetatable({ nil, nil, nil, nil, [HIDDEN] = handle }, LAZY_LIST) end
local makers = { [MAP] = make_map, [LIST] = make_list, [NULL] = false }

-- One message of the host: members of `t`, which has no metatable meanwhile. Returns where to go on, and the handle and
-- the members in a row, documents among them as tables to be opened.
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

-- Arrays that are read from end to end, as those of all clusters' statuses are, are opened with all that is in them: a
-- level at a time would be a message for each of some hundred small tables.
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
  sethook() -- it would slow each step, and there are no more of them than there are values
  repeat
    room()
    ticks = ticks + MANY // EVERY
    local more, values = message(open_whole(handle, from))
    local i, n = 1, #values
    while i <= n do
      local v
      v, i = build(values, i)
      t[#t + 1] = v
      level[#level + 1] = v
    end
    from = more
  until not from
  t[HIDDEN] = level
  sethook(tick, "", EVERY)
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

local function opened(t)
  local meta = getmetatable(t)
  if meta == LAZY_MAP or meta == LAZY_LIST then open(t) end
end

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
  opened(t)
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

-- Numbers and texts as 5.1 has them.

local EXACT = 2 ^ 53
local function whole(x)
  if mathtype(x) == "float" and x > -EXACT and x < EXACT then return tointeger(x) or x end
  return x
end

local function to_text(...)
  local v = (...)
  local kind = type(v)
  if kind == "number" then return tostring(whole(v)) end
  if kind == "table" then return v == NULL and "null" or "table" end
  if kind == "function" then return "function" end
  return tostring(...)
end

local function numbered(f)
  return function(...) return whole(f(...)) end
end

-- What a value is made of, as the host is told: tags 0 a value, 1 a document's own, 2 one of the nodes before, 3 null,
-- 5 nothing any more. A node: its kind (m, l, d for what differs from a document's own, e for an empty table that may be
-- either), the handle it had, its length; names or positions, tags and values.

local sent, sent_n, nodes, bytes, most_bytes, memo, path, depth

local function wrong(message, k)
  path[depth + 1] = k
  local names = {}
  for i = 1, #path do names[i] = to_text(path[i]) end
  error(message .. (#names > 0 and ", at " .. concat(names, ".") or ""), 0)
end

local describe

local function scalar(v, k)
  local kind = type(v)
  if kind == "string" then
    bytes = bytes + #v
    if bytes > most_bytes then wrong("OUTPUT") end
  elseif kind == "number" then
    if v ~= v or v == math.huge or v == -math.huge then
      wrong("a number that JSON does not have: " .. tostring(v), k)
    end
    v = whole(v)
  elseif kind ~= "boolean" then
    wrong("a " .. kind .. " cannot be part of an object", k)
  end
  return v
end

local function tagged(k, v)
  if type(v) ~= "table" then return 0, scalar(v, k) end
  depth = depth + 1
  path[depth] = k
  local tag, value = describe(v)
  path[depth] = nil
  depth = depth - 1
  return tag, value
end

local function node(kind, handle, count, items)
  bytes = bytes + 16 * (#items // 2 + 1)
  if bytes > most_bytes then wrong("OUTPUT") end
  sent[sent_n + 1], sent[sent_n + 2], sent[sent_n + 3] = kind, handle, count
  sent_n = sent_n + 3
  move(items, 1, #items, sent_n + 1, sent)
  sent_n = sent_n + #items
  if sent_n > MANY then
    for i = 1, sent_n, MANY do give(unpack(sent, i, math.min(i + MANY - 1, sent_n))) end
    sent, sent_n = {}, 0
  end
  nodes = nodes + 1
  return 2, nodes - 1
end

local function count_keys(t)
  local n = 0
  for _ in rawnext, t do n = n + 1 end
  return rawget(t, HIDDEN) == nil and n or n - 1
end

local function list_items(t, n)
  local items = {}
  for i = 1, n do
    local v = t[i]
    if v == nil then wrong("a list with holes: use table.remove to take elements out") end
    items[2 * i - 1], items[2 * i] = tagged(i, v)
  end
  return items
end

-- Add members of a table to `items`: those of `keys` that are not in `known`.
local function add_members(t, items, keys, known)
  local n = #items
  for i = 1, #keys do
    local k = keys[i]
    local v = t[k]
    if v ~= nil and not (known and known[k]) then
      if type(k) ~= "string" then wrong("a key that is a " .. type(k) .. ", in an object") end
      bytes = bytes + #k
      items[n + 1], items[n + 2], items[n + 3] = k, tagged(k, v)
      n = n + 3
    end
  end
end

-- A document's own object: what is not as it was.
local function describe_map(t, mine)
  local items, n = nil, 0
  for i = 2, #mine, 2 do
    local k, was = mine[i], mine[i + 1]
    local is, tag, value = t[k], nil, nil
    if type(is) == "table" then
      tag, value = tagged(k, is)
      if is == was and tag == 1 then tag = nil end
    elseif is ~= was and not (is == nil and was == NULL) then
      if is == nil then tag, value = 5, 0 else tag, value = tagged(k, is) end
    end
    if tag then
      items = items or {}
      items[n + 1], items[n + 2], items[n + 3] = k, tag, value
      n = n + 3
    end
  end
  if mine.grown then
    if rawlen(t) > 0 then wrong("an object that is given elements") end
    local known = {}
    for i = 2, #mine, 2 do known[mine[i]] = true end
    items = items or {}
    add_members(t, items, mine.keys, known)
  end
  if items == nil or #items == 0 then return 1, mine[1] end
  return node("d", mine[1], #items // 3, items)
end

-- A document's own array: likewise where it is as long as it was, otherwise all of it.
local function describe_list(t, mine)
  local n, items = rawlen(t), {}
  if mine.grown and count_keys(t) > n then wrong("a list that is given names, or has holes") end
  if n ~= #mine - 1 then return node("l", -1, n, list_items(t, n)) end
  for i = 1, n do
    local was, is = mine[i + 1], t[i]
    local tag, value
    if type(is) == "table" then
      tag, value = tagged(i, is)
      if is == was and tag == 1 then tag = nil end
    elseif is ~= was then
      if is == nil then wrong("a list with holes: use table.remove to take elements out") end
      tag, value = tagged(i, is)
    end
    if tag then
      local m = #items
      items[m + 1], items[m + 2], items[m + 3] = i - 1, tag, value
    end
  end
  if #items == 0 then return 1, mine[1] end
  return node("d", mine[1], #items // 3, items)
end

local function describe_new(t, mine, meta)
  if meta == OPEN_LIST then return describe_list(t, mine) end
  if meta == OPEN_MAP then return describe_map(t, mine) end
  local n, items = rawlen(t), {}
  if n > 0 then
    if mine and count_keys(t) > n then wrong("a table with both a sequence and other keys, or with holes") end
    return node("l", -1, n, list_items(t, n))
  end
  if mine then add_members(t, items, mine.keys) end
  if #items == 0 then return node("e", -1, 0, items) end
  return node("m", -1, #items // 3, items)
end

function describe(t)
  if t == NULL then return 3, 0 end
  local meta = getmetatable(t)
  if meta == LAZY_MAP or meta == LAZY_LIST then return 1, rawget(t, HIDDEN) end
  if not is_open[meta] then wrong("a library cannot be part of an object") end
  local known = memo[t]
  if known == false then wrong("a table that contains itself") end
  if known then return known[1], known[2] end
  if depth > DEEPEST then wrong("OUTPUT") end
  memo[t] = false
  local tag, value = describe_new(t, rawget(t, HIDDEN), meta)
  memo[t] = { tag, value }
  return tag, value
end

local function begin_description()
  sent, sent_n, nodes, bytes, memo, path, depth = {}, 0, 0, 0, {}, {}, 0
end

-- One value in full: what stands for it, and then its nodes.
local function described(v)
  if v == nil then return 3, 0 end
  if type(v) ~= "table" then return 0, scalar(v) end
  return describe(v)
end

-- The modules that scripts can require.

local env, loaded -- of the call: its globals, the modules that it required

local function answered(ok, kind, value)
  if not ok then error(kind, 0) end
  if kind == "map" then return make_map(value) end
  if kind == "list" then return make_list(value) end
  return value
end

local function asking(name)
  return function(...)
    begin_description()
    local values = {}
    for i = 1, select("#", ...) do
      local tag, value = described((select(i, ...)))
      values[#values + 1] = tag
      values[#values + 1] = value
    end
    if sent_n > 0 then give(unpack(sent, 1, sent_n)) end
    room()
    return answered(ask(name, unpack(values, 1, #values)))
  end
end

local modules = {
  kube = {
    resourceAdd = asking("resourceAdd"),
    accuratePodRequirements = asking("accuratePodRequirements"),
    getPodDependencies = asking("getPodDependencies"),
    getResourceQuantity = asking("getResourceQuantity"),
  },
}
local written = {} -- modules in Lua: their chunks

local function copy(library)
  local t = {}
  for k, v in rawnext, library do t[k] = v end
  return t
end

local function require_(name)
  local module = loaded[name]
  if module == nil then
    if modules[name] then
      module = copy(modules[name])
    elseif written[name] then
      module = written[name](env, plain_table, ordered_table, whole)
    else
      error("module '" .. to_text(name) .. "' not found: there are kube, fleet and the libraries", 2)
    end
    loaded[name] = module
  end
  return module
end

local printed, printed_n

local function print_(...)
  if printed_n < 100 then
    local texts = {}
    for i = 1, select("#", ...) do texts[i] = sub(to_text((select(i, ...))), 1, 1000) end
    printed_n = printed_n + 1
    printed[printed_n] = concat(texts, "\t")
  end
end

-- Functions of C that can take long, or know too much, in front of which something stands.

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
  assert = assert, error = error, ipairs = ipairs, next = successor, pairs = ordered_pairs, pcall = pcall_, print = print_,
  require = require_, select = select, type = type, unpack = unpack_, xpcall = xpcall_,
  tonumber = numbered(tonumber), tostring = to_text, _VERSION = "Lua 5.1",
}
for _, name in ipairs({
  "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal", "rawget", "rawset",
  "setfenv", "setmetatable", "module", "newproxy",
}) do
  base[name] = refused(name)
end

-- Globals, made anew for each call and filled as they are asked for.
local ENVIRONMENT = {}
function ENVIRONMENT.__index(globals, k)
  local library = libraries[k]
  local v
  if library then v = copy(library) elseif k == "_G" then v = globals else v = base[k] end
  if v ~= nil then rawset(globals, k, v) end
  return v
end

local texts = getmetatable("")
function texts.__index(_, k) return env.string[k] end

-- Calls.

local chunks = {}

local called -- the function of the script that is running

local function handler(e)
  if not failed then place = user_place(3) end
  return e
end

-- Nothing of the script is on the stack after a tail call, once it has returned, and where memory ran out: then it is told
-- where its function begins.
local function beginning()
  if not called then return "" end
  local info = getinfo(called, "S")
  return sub(info.source, 3) .. ":" .. info.linedefined
end

local function top_level(id)
  return chunks[id](env, plain_table, ordered_table, whole)
end

local MISSING = {}

local function calling(id, name, with_globals, count, ...)
  top_level(id)
  local values = {}
  for i = 1, select("#", ...), 2 do
    local kind, v = select(i, ...)
    values[#values + 1] = kind == "m" and make_map(v) or kind == "l" and opened_whole(v) or v
  end
  if with_globals then
    rawset(env, "desiredObj", values[1])
    rawset(env, "runtimeObj", values[2])
    rawset(env, "observedObj", values[2])
  end
  local f = rawget(env, name)
  if type(f) ~= "function" then error(MISSING, 0) end
  called = sub(getinfo(f, "S").source, 1, 2) == "=." and f or nil
  local results = pack(f(unpack(values, 1, select("#", ...) // 2)))
  begin_description()
  local told = {}
  for i = 1, count do
    local tag, v = described(results[i])
    told[2 * i - 1], told[2 * i] = tag, v
  end
  return told
end

local function begin(ticks_allowed, seconds, kib)
  env, loaded = setmetatable({}, ENVIRONMENT), {}
  printed, printed_n = {}, 0
  failed, place, called, ticks, most_ticks, within = nil, nil, nil, 0, ticks_allowed, 0
  local used = memory("count")
  due, soft, large, most_bytes = clock() + seconds, used + kib, used + LARGE, kib * 256
  math.randomseed(1)
  memory("stop")
  collecting = false
end

local function finish()
  sethook()
  if memory("count") > AT_MOST_LEFT then memory("collect") end
  env, loaded = nil, nil
  sent, memo, path = nil, nil, nil
end

local function failure(e)
  local kind, message = "script", e
  if failed then
    kind, message = failed, ""
  elseif e == MISSING then
    kind, message = "missing", ""
  elseif type(e) == "string" then
    if e == "not enough memory" then
      kind, message = "memory", ""
    elseif find(e, "^OUTPUT") then
      kind, message = "output", ""
    end
  elseif type(e) == "number" then
    message = to_text(e)
  else
    message = "an error that is a " .. type(e)
  end
  message = gsub(message, "^%[%w+%.?l?u?a?%]:%d+: ", "") -- where in the sandbox is of no use to anybody
  if #message > 1000 then message = sub(message, 1, 1000) .. "..." end
  return kind, message, place or beginning()
end

local api = {}

function api.load(id, text, name)
  local chunk, message = load(text, "=." .. name, "t")
  if not chunk then return message end
  chunks[id] = chunk
end

function api.library(name, text)
  written[name] = assert(load(text, "=[" .. name .. "]", "t"))
end

function api.forget() chunks = {} end

-- Returns true, one tag and value for each result, the nodes; or false, the kind of error, its text, where it was.
function api.call(id, name, with_globals, count, ticks_allowed, seconds, kib, ...)
  begin(ticks_allowed, seconds, kib)
  sethook(tick, "", EVERY)
  local ok, told = xpcall(calling, handler, id, name, with_globals, count, ...)
  sethook()
  if not ok then
    local kind, message, where = failure(told)
    finish()
    return false, kind, message, where
  end
  local n = 2 * count
  for i = 1, sent_n do told[n + i] = sent[i] end
  local total = n + sent_n
  finish()
  return true, unpack(told, 1, total)
end

-- The top level alone: whether it runs, and which functions there are then.
function api.try(id, ticks_allowed, seconds, kib)
  begin(ticks_allowed, seconds, kib)
  sethook(tick, "", EVERY)
  local ok, e = xpcall(top_level, handler, id)
  sethook()
  local names = {}
  if ok then
    for k, v in rawnext, env do
      if type(k) == "string" and type(v) == "function" and base[k] ~= v then names[#names + 1] = k end
    end
    finish()
    return true, unpack(names)
  end
  local kind, message, where = failure(e)
  finish()
  return false, kind, message, where
end

outside[api.call], outside[api.try] = true, true

function api.printed() return unpack(printed, 1, printed_n) end

function api.names() -- of all that a script can say without setting it
  local all = { "_G" }
  for k in rawnext, base do all[#all + 1] = k end
  for k in rawnext, libraries do all[#all + 1] = k end
  return unpack(all)
end

return api, NULL, MAP, LIST
