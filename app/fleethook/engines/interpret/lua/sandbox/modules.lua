-- The modules that scripts can require, and the output of print.

local parts = ...

local give, ask = parts.host.give, parts.host.ask
local room, work, tables, texts, documents = parts.limits.room, parts.limits.work, parts.tables, parts.texts, parts.documents
local description = parts.description
local rawnext, select, error, assert, load = next, select, error, assert, load
local unpack, concat, sub = table.unpack, table.concat, string.sub
local to_text = texts.to_text

local WORK = 10000 -- units of work of a call to the host

local env, loaded -- the globals of the call, and its loaded modules
local printed, printed_n = {}, 0

local function answered(ok, kind, value)
  if not ok then error(kind, 0) end
  if kind == "map" then return documents.map(value) end
  if kind == "list" then return documents.list(value) end
  return value
end

local function asking(name)
  return function(...)
    description.begin()
    local values = {}
    for i = 1, select("#", ...) do
      local tag, value = description.value((select(i, ...)))
      values[#values + 1] = tag
      values[#values + 1] = value
    end
    local sent, n = description.rest()
    if n > 0 then give(unpack(sent, 1, n)) end
    room()
    work(WORK)
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
local written = {} -- chunks of modules that are written in Lua

local function copy(library)
  local t = {}
  for k, v in rawnext, library do t[k] = v end
  return t
end

local function first_three(f, state, control) return f, state, control end

-- Runs a chunk with the arguments that the rewriter declares.
local function run(chunk)
  return chunk(
    env, tables.plain, tables.ordered, tables.holed, tables.clear, texts.operand, parts.numbers.power, first_three
  )
end

local function require_(name)
  local module = loaded[name]
  if module == nil then
    if modules[name] then
      module = copy(modules[name])
    elseif written[name] then
      module = run(written[name])
    elseif parts.libraries.libraries[name] then
      module = env[name]
    else
      error("module '" .. to_text(name) .. "' not found: there are kube, fleet and the libraries", 2)
    end
    loaded[name] = module
  end
  return module
end

local function print_(...)
  if printed_n < 100 then
    local texts = {}
    for i = 1, select("#", ...) do texts[i] = sub(to_text((select(i, ...))), 1, 1000) end
    printed_n = printed_n + 1
    printed[printed_n] = concat(texts, "\t")
  end
end

parts.modules = {
  require = require_,
  print = print_,
  copy = copy,
  run = run,
  begin = function(globals)
    env, loaded = globals, {}
    printed, printed_n = {}, 0
  end,
  forget = function() env, loaded = nil, nil end,
  printed = function() return unpack(printed, 1, printed_n) end,
  add = function(name, text) written[name] = assert(load(text, "=[" .. name .. "]", "t")) end,
}
