-- Calls of scripts. Each call has new globals, which are copied when the script first reads them.

local parts = ...

local limits, tables, texts, documents = parts.limits, parts.tables, parts.texts, parts.documents
local description, modules, libraries = parts.description, parts.modules, parts.libraries
local setmetatable, getmetatable, rawget, rawset, rawnext = setmetatable, getmetatable, rawget, rawset, next
local type, error, select, xpcall, load, math = type, error, select, xpcall, load, math
local unpack, pack, move, sub, find, gsub = table.unpack, table.pack, table.move, string.sub, string.find, string.gsub
local getinfo = debug.getinfo
local to_text = texts.to_text

local base = libraries.base
base.require, base.print = modules.require, modules.print

local env -- the globals of the call
local ENVIRONMENT = {}
function ENVIRONMENT.__index(globals, k)
  local library = libraries.libraries[k]
  local v
  if library then v = modules.copy(library) elseif k == "_G" then v = globals else v = base[k] end
  if v ~= nil then rawset(globals, k, v) end
  return v
end

-- Methods of strings come from the string library of the call.
local text_methods = getmetatable("")
function text_methods.__index(_, k) return env.string[k] end

local chunks = {}

local called -- the running function of the script
local place -- the place that raised an error

local function handler(e)
  place = limits.user_place(3)
  return e
end

-- The stack contains no frame of the script after a tail call, after its return, and if memory ran out. Then the error names
-- the first line of the function.
local function beginning()
  if not called then return "" end
  local info = getinfo(called, "S")
  return sub(info.source, 3) .. ":" .. info.linedefined
end

local function top_level(id) return modules.run(chunks[id]) end

local MISSING = {}

local function calling(id, name, with_globals, count, ...)
  top_level(id)
  local values = {}
  for i = 1, select("#", ...), 2 do
    local kind, v = select(i, ...)
    values[i // 2 + 1] = kind == "m" and documents.map(v) or kind == "l" and documents.whole(v) or v
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
  description.begin()
  local told = {}
  for i = 1, count do
    local tag, v = description.value(results[i])
    told[2 * i - 1], told[2 * i] = tag, v
  end
  return told
end

-- If a script may remove globals, they must not reappear when it reads them. So all of them are copied in advance.
local function own_globals()
  local globals = modules.copy(base)
  for name, library in rawnext, libraries.libraries do globals[name] = modules.copy(library) end
  globals._G = globals
  return globals
end

local function begin(own, ticks_allowed, seconds, kib)
  env, called, place = own and own_globals() or setmetatable({}, ENVIRONMENT), nil, nil
  modules.begin(env)
  libraries.begin()
  description.limit(kib * 256)
  math.randomseed(1)
  limits.begin(ticks_allowed, seconds, kib)
  limits.watch()
end

local function finish()
  env = nil
  modules.forget()
  description.forget()
  limits.finish()
end

local function failure(e)
  local kind, message = "script", e
  local limit, limit_place = limits.reached()
  if limit then
    kind, message, place = limit, "", limit_place
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
  message = gsub(message, "^%[%w+%.?l?u?a?%]:%d+: ", "") -- lines of the sandbox do not help users
  if #message > 1000 then message = sub(message, 1, 1000) .. "..." end
  return kind, message, place or beginning()
end

local api = {}

function api.load(id, text, name)
  local chunk, message = load(text, "=." .. name, "t")
  if not chunk then return message end
  chunks[id] = chunk
end

api.library, api.printed, api.spent = modules.add, modules.printed, limits.spent

function api.forget() chunks = {} end

-- Returns true, a tag and a value for each result, and the nodes; or false, the kind of the error, its text and its place.
function api.call(id, own, name, with_globals, count, ticks_allowed, seconds, kib, ...)
  begin(own, ticks_allowed, seconds, kib)
  local ok, told = xpcall(calling, handler, id, name, with_globals, count, ...)
  limits.unwatch()
  if not ok then
    local kind, message, where = failure(told)
    finish()
    return false, kind, message, where
  end
  local sent, n = description.rest()
  move(sent, 1, n, 2 * count + 1, told)
  finish()
  return true, unpack(told, 1, 2 * count + n)
end

-- Runs only the top level. Returns true and the names of the functions that it defines, or false and the error.
function api.try(id, own, ticks_allowed, seconds, kib)
  begin(own, ticks_allowed, seconds, kib)
  local ok, e = xpcall(top_level, handler, id)
  limits.unwatch()
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

limits.are_outside(api.call, api.try, limits.unwatch)

function api.names() -- of the predefined globals
  local all = { "_G" }
  for k in rawnext, base do all[#all + 1] = k end
  for k in rawnext, libraries.libraries do all[#all + 1] = k end
  return unpack(all)
end

return api, tables.NULL, documents.MAP, documents.LIST
