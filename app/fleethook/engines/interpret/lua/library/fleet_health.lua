-- require("fleet"), part 1: members of objects, and rules of health.
--
-- The parts are one chunk, so a part uses the locals of those before it. No function fails for a missing status, a nil list
-- or an empty list of clusters.

local fleet = {}

-- Returns the member at a path of an object, nil if there is none: fleet.get(obj, "status", "replicas").
function fleet.get(object, ...)
  for i = 1, select("#", ...) do
    if type(object) ~= "table" then return nil end
    object = object[(select(i, ...))]
  end
  return object
end
local get = fleet.get

-- Returns the number at a path, 0 if it is missing or not a number, because controllers omit counters that are 0.
function fleet.count(object, ...)
  local value = get(object, ...)
  return type(value) == "number" and value or 0
end
local count = fleet.count

-- Iterates over the statuses of the items, each with the name of its cluster ("?" if it has none).
function fleet.statuses(items)
  local i = 0
  return function()
    while items ~= nil do
      i = i + 1
      local item = items[i]
      if item == nil then return nil end
      local status, name = get(item, "status"), get(item, "clusterName")
      if type(status) == "table" and next(status) ~= nil then return status, type(name) == "string" and name or "?" end
    end
  end
end
local statuses = fleet.statuses

-- Returns the list at a path, without elements that are no objects; an empty list if it is missing.
function fleet.objects(object, ...)
  local list, found = get(object, ...), {}
  for _, one in ipairs(type(list) == "table" and list or {}) do
    if type(one) == "table" and next(one) ~= nil then found[#found + 1] = one end
  end
  return found
end

-- Returns the string at a path, "" if it is missing or another value.
function fleet.text(object, ...)
  local value = get(object, ...)
  return type(value) == "string" and value or ""
end
local objects, text = fleet.objects, fleet.text

-- Returns the table at a path for `pairs`, an empty one if it is missing or another value.
function fleet.members(object, ...)
  local value = get(object, ...)
  return type(value) == "table" and value or {}
end

-- Returns the types of the conditions of a status.
function fleet.types(status)
  local types = {}
  for _, one in ipairs(objects(status, "conditions")) do
    if text(one, "type") ~= "" then types[#types + 1] = one.type end
  end
  return types
end

-- Returns the types of the conditions of all clusters.
function fleet.all_types(items)
  local types, known = {}, {}
  for member in statuses(items) do
    for _, kind in ipairs(fleet.types(member)) do
      if not known[kind] then types[#types + 1] = kind end
      known[kind] = true
    end
  end
  return types
end

-- Returns an empty list for a member that a definition requires: the first cluster's list without its elements. An empty
-- table of a script is neither a list nor an object, so it is left out.
function fleet.empty_list(items, name)
  for member in statuses(items) do
    local list = member[name]
    if type(list) == "table" then
      while #list > 0 do table.remove(list) end
      return list
    end
  end
end

-- Returns the condition of a type, nil if there is none.
function fleet.condition(object, kind)
  for _, one in ipairs(objects(object, "status", "conditions")) do
    if one.type == kind then return one end
  end
end
local condition = fleet.condition

-- Returns whether the condition of a type has a status (default "True").
function fleet.is(object, kind, status)
  local found = condition(object, kind)
  return found ~= nil and found.status == (status or "True")
end

-- Returns whether the controller has observed the current generation; true if there is no generation, or if it does not
-- report observedGeneration.
function fleet.current(object)
  local observed, generation = get(object, "status", "observedGeneration"), get(object, "metadata", "generation")
  return observed == nil or generation == nil or observed == generation
end

-- Returns whether the status reports the current generation, unlike `current` also if it does not report observedGeneration.
function fleet.observed(object)
  return get(object, "status") ~= nil and get(object, "status", "observedGeneration") == get(object, "metadata", "generation")
end

-- Health: docs/interpreters.md has the rules.

-- Returns the health of kinds with a Ready condition: the current generation is observed, and the condition is True.
function fleet.ready(object, kind)
  return get(object, "status") ~= nil and fleet.current(object) and fleet.is(object, kind or "Ready")
end

-- Returns whether the object is suspended or paused as a whole: by a member of spec, or by one of the named annotations
-- or labels, unless its value is "false" or "off". For Pods that an update keeps, see `rolled_out`.
function fleet.suspended(object, ...)
  local spec = get(object, "spec")
  for _, name in ipairs({ "suspend", "suspended", "pause", "paused" }) do
    if get(spec, name) == true then return true end
  end
  for _, name in ipairs({ ... }) do
    local value = get(object, "metadata", "annotations", name) or get(object, "metadata", "labels", name)
    if value ~= nil and value ~= "false" and value ~= "off" then return true end
  end
  return get(spec, "runPolicy", "suspend") == true
end

-- Returns whether the status reports a failure: Failed or Stalled is True, or Ready (or the condition of another type) is
-- False for another reason than the suspension.
function fleet.failed(object, kind)
  local ready = condition(object, kind or "Ready")
  for _, name in ipairs({ "Failed", "Stalled", "NotReady" }) do
    if fleet.is(object, name) then return true end
  end
  if get(ready, "status") ~= "False" then return false end
  local reason = string.lower(tostring(ready.reason))
  for _, held in ipairs({ "suspend", "pause", "stopped" }) do
    if string.find(reason, held, 1, true) then return false end
  end
  return true
end

-- Returns the health of kinds that can be suspended: `ready`, or suspended without a failure. The controller may not observe
-- the generation of a suspended object. More arguments are those of `suspended`.
function fleet.ready_or_suspended(object, kind, ...)
  if fleet.suspended(object, ...) then return not fleet.failed(object, kind) end
  return fleet.ready(object, kind)
end

-- Returns the health of kinds whose controller sets Ready to Unknown while it applies a change: `ready`, or Unknown if `served` says
-- that an earlier state was complete, which serves until then.
function fleet.ready_or_changing(object, served)
  if fleet.is(object, "Stalled") then return false end
  return fleet.ready(object) or served and fleet.is(object, "Ready", "Unknown")
end

-- Returns the number of Pods that a partition keeps at the old version: a number, or a percentage. A percentage is rounded
-- up, but less than 100 % leaves a Pod to update, as in Kruise.
function fleet.partition(partition, all)
  if type(partition) == "number" then return partition end
  if type(all) ~= "number" then return 0 end
  local percent = type(partition) == "string" and tonumber((string.match(partition, "^(%d+)%%$"))) or 0
  local old = math.ceil(all * percent / 100)
  if old == all and percent < 100 and all > 1 then old = all - 1 end
  return old
end

-- Returns the health of a workload by its counters, all in `pods`: `wanted` of the spec, `updated` and `available` of the
-- status. All wanted Pods are available, and all are updated but those that the spec holds back: `held`, a number, or true
-- for the whole update. The caller checks the generation.
function fleet.rolled_out(pods)
  local wanted, updated, held = count(pods, "wanted"), pods.updated or 0, pods.held or 0
  if held == true then held = wanted end
  return updated >= wanted - held and (pods.available or 0) >= math.max(wanted, updated)
end

-- Returns the health of kinds with a phase: the current generation is observed, and a member of the status, such as "phase",
-- has one of the values.
function fleet.in_phase(object, name, ...)
  local value = get(object, "status", name)
  for _, healthy in ipairs({ ... }) do
    if value == healthy then return fleet.current(object) end
  end
  return false
end

-- Returns whether more than half of the members of a cluster are ready, so that they can elect a primary.
function fleet.has_quorum(ready, members) return members > 0 and 2 * ready > members end
