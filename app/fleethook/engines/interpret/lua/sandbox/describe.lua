-- Describes the results of a call to the host. An unchanged part of a document is described by its handle.
--
-- Tags: 0 a value, 1 an unchanged part of a document, 2 an earlier node, 3 null, 5 a removed member. A node consists of its
-- kind (m object, l array, d changes of a part of a document, e empty table of unknown type), its handle and its length,
-- followed by names or positions, tags and values.

local parts = ...

local give = parts.host.give
local tables, texts = parts.tables, parts.texts
local HIDDEN, NULL, OPEN_MAP, OPEN_LIST = tables.HIDDEN, tables.NULL, tables.OPEN_MAP, tables.OPEN_LIST
local LAZY_MAP, LAZY_LIST, is_open = tables.LAZY_MAP, tables.LAZY_LIST, tables.is_open
local whole, to_text = texts.whole, texts.to_text
local getmetatable, rawget, rawlen, rawnext = getmetatable, rawget, rawlen, next
local type, error, math, huge = type, error, math, math.huge
local unpack, concat, move = table.unpack, table.concat, table.move

local MANY = 4000 -- values in one message to the host
local DEEPEST = 500

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
    if v ~= v or v == huge or v == -huge then wrong("a number that JSON does not have: " .. to_text(v), k) end
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

-- Add the members of a table to `items` whose keys are in `keys` and not in `known`.
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

-- Describes the changed members of a document's object.
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
    if rawlen(t) > 0 then
      if #mine > 1 or count_keys(t) > rawlen(t) then wrong("an object that is given elements") end
      -- For scripts in Karmada, an empty object is also an empty list.
      return node("l", -1, rawlen(t), list_items(t, rawlen(t)))
    end
    local known = {}
    for i = 2, #mine, 2 do known[mine[i]] = true end
    items = items or {}
    add_members(t, items, mine.keys, known)
  end
  if items == nil or #items == 0 then return 1, mine[1] end
  return node("d", mine[1], #items // 3, items)
end

-- Describes the changed elements of a document's array, or all elements if its length has changed.
local function describe_list(t, mine)
  local n, items = rawlen(t), {}
  if mine.grown and count_keys(t) > n then
    if n > 0 or #mine > 1 then wrong("a list that is given names, or has holes") end
    -- For scripts in Karmada, an empty list is also an empty object.
    add_members(t, items, mine.keys)
    return node("m", -1, #items // 3, items)
  end
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
  local tag, value = describe_new(t, rawget(t, HIDDEN), is_open[meta])
  memo[t] = { tag, value }
  return tag, value
end

local function begin()
  sent, sent_n, nodes, bytes, memo, path, depth = {}, 0, 0, 0, {}, {}, 0
end

-- Returns the tag and the value of one result.
local function described(v)
  if v == nil then return 3, 0 end
  if type(v) ~= "table" then return 0, scalar(v) end
  return describe(v)
end

parts.description = {
  begin = begin,
  value = described,
  limit = function(most) most_bytes = most end,
  -- Returns the nodes that are not sent yet, and the number of their values.
  rest = function() return sent, sent_n end,
  forget = function() sent, memo, path = nil, nil, nil end,
}
