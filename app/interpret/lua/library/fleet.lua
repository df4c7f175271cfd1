-- require("fleet"): rules of health, and helpers for scripts that aggregate the statuses of many clusters.
--
-- No function fails for a missing status, a nil list or an empty list of clusters.

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

-- Returns a table with the named members that `object` has.
function fleet.pick(object, ...)
  local picked = {}
  for _, name in ipairs({ ... }) do
    if type(object) == "table" and object[name] ~= nil then picked[name] = object[name] end
  end
  return picked
end

-- Returns the status to report: the named members (without names, all), and generation and resourceTemplateGeneration, which
-- `generation` needs to set the template's observedGeneration.
function fleet.reflect(object, ...)
  local status = select("#", ...) > 0 and fleet.pick(get(object, "status"), ...) or get(object, "status") or {}
  status.generation = get(object, "metadata", "generation")
  local annotations = get(object, "metadata", "annotations")
  status.resourceTemplateGeneration = tonumber(get(annotations, "resourcetemplate.karmada.io/generation"))
  return status
end

-- Sets the template's status to that of the only cluster. Returns false if there are more clusters, or none.
function fleet.set_only(template, items)
  if type(items) ~= "table" or #items ~= 1 then return false end
  local status = get(items[1], "status")
  if type(status) == "table" then status.generation, status.resourceTemplateGeneration = nil, nil end
  template.status = status
  return true
end

-- Sets members of the template's status to their sum over the clusters.
function fleet.sum(template, items, ...)
  local status = fleet.status(template)
  for _, name in ipairs({ ... }) do
    local total = 0
    for member in statuses(items) do total = total + count(member, name) end
    status[name] = total
  end
  return template
end

-- Returns the template's status (or spec), created if it is missing.
function fleet.status(template)
  if type(template.status) ~= "table" then template.status = {} end
  return template.status
end
function fleet.spec(template)
  if type(template.spec) ~= "table" then template.spec = {} end
  return template.spec
end

-- Sets the template's generation to 0 if it has none, as Karmada's scripts do.
function fleet.default_generation(template)
  if type(template.metadata) ~= "table" then return end
  template.metadata.generation = template.metadata.generation or 0
end

-- Sets the template's observedGeneration once every cluster has observed its current generation.
function fleet.generation(template, items)
  local status, wanted, seen, all = fleet.status(template), count(template, "metadata", "generation"), 0, 0
  if items ~= nil then all = #items end
  for member in statuses(items) do
    local aligned = count(member, "observedGeneration") >= count(member, "generation")
    if aligned and count(member, "resourceTemplateGeneration") >= wanted then seen = seen + 1 end
  end
  if seen == all then
    status.observedGeneration = wanted
  elseif status.observedGeneration == nil then
    status.observedGeneration = 0
  end
  return template
end

-- Returns the message of a condition, or else its reason or its status.
local function describe(one)
  for _, name in ipairs({ "message", "reason", "status" }) do
    if text(one, name) ~= "" then return one[name] end
  end
  return "unknown"
end

-- Returns the begin of a message, because API servers limit messages to 32768 characters.
local function shorten(message)
  if #message <= 32768 then return message end
  local last = 32768
  -- A character of UTF-8 is not divided: its further bytes are 128 to 191.
  while last > 0 and string.byte(message, last + 1) >= 128 and string.byte(message, last + 1) < 192 do last = last - 1 end
  return string.sub(message, 1, last)
end

local WORSE = { ["False"] = 3, Unknown = 2, True = 1 }

-- Sets the template's conditions of the given types: True if the condition is True in all clusters, otherwise the worst
-- condition. `bad` is a set of types for which True is the bad status. Messages name the clusters.
function fleet.conditions(template, items, types, bad)
  local status, result = fleet.status(template), {}
  local clusters = items ~= nil and #items or 0
  for _, kind in ipairs(types) do
    local worst, rank, messages, there = nil, 0, {}, 0
    for member, name in statuses(items) do
      local found = condition({ status = member }, kind)
      if found ~= nil then
        there = there + 1
        local is_bad = bad and bad[kind]
        local r = WORSE[text(found, "status")] or 2
        if is_bad and r ~= 2 then r = 4 - r end
        if r > rank then worst, rank = found, r end
        if r > 1 then messages[#messages + 1] = name .. ": " .. describe(found) end
      end
    end
    if worst ~= nil then
      -- The definition of the kind decides which members a condition has, and which of them are required.
      local made = {}
      for name, value in pairs(worst) do made[name] = value end
      if rank == 1 and there < clusters and not (bad and bad[kind]) then
        made.status, made.reason = "Unknown", made.reason ~= nil and "NotReported" or nil
        messages[1] = there .. " of " .. clusters .. " clusters report it"
      end
      made.observedGeneration = nil
      if #messages > 0 then made.message = shorten(table.concat(messages, "; ")) end
      result[#result + 1] = made
    end
  end
  status.conditions = result
  return template
end

-- Returns the entries of a list in the status, such as the parents of a route, of all clusters: one entry for each key, the first
-- one with the conditions of all clusters, as in `conditions`. `key` returns the key of an entry. `sum` lists counters.
function fleet.merge_entries(items, name, key, bad, sum)
  local merged, known = {}, {}
  for i, item in ipairs(type(items) == "table" and items or {}) do
    for _, one in ipairs(objects(item, "status", name)) do
      local entry = known[key(one)]
      if entry == nil then
        entry = { made = {}, items = {}, types = {}, seen = {} }
        for member, value in pairs(one) do entry.made[member] = value end
        for j, other in ipairs(items) do
          entry.items[j] = { clusterName = get(other, "clusterName"), status = { conditions = {} } }
        end
        known[key(one)], merged[#merged + 1] = entry, entry
      else
        for _, counter in ipairs(sum or {}) do entry.made[counter] = count(entry.made, counter) + count(one, counter) end
      end
      entry.items[i].status.conditions = one.conditions
      for _, kind in ipairs(fleet.types(one)) do
        if not entry.seen[kind] then entry.types[#entry.types + 1] = kind end
        entry.seen[kind] = true
      end
    end
  end
  local list = {}
  for i, entry in ipairs(merged) do
    list[i] = entry.made
    -- Without conditions, the empty list stays, because its definition may require it.
    if entry.types[1] ~= nil then
      list[i].conditions = fleet.conditions({}, entry.items, entry.types, bad).status.conditions
    end
  end
  return list
end

-- Returns the conditions of all clusters. Conditions with the same type, status and reason become one, whose message names
-- the clusters.
function fleet.merged_conditions(items)
  local list, at = {}, {}
  for member, cluster in statuses(items) do
    for _, one in ipairs(objects(member, "conditions")) do
      local key = table.concat({ text(one, "type"), text(one, "status"), text(one, "reason") }, "\0")
      local message = cluster .. "=" .. text(one, "message")
      if at[key] == nil then
        at[key], list[#list + 1] = one, one
      else
        message = at[key].message .. ", " .. message
      end
      at[key].message = message
    end
  end
  return list
end

-- Jobs of Kubeflow's family (PyTorchJob, TFJob, MPIJob, XGBoostJob, ...), with the conditions Created, Running, Restarting,
-- Suspended, Succeeded and Failed.

-- Returns the health: the controller has reported a condition, or the job is suspended, and it has not failed.
function fleet.training_healthy(object)
  local conditions = objects(object, "status", "conditions")
  local reported = conditions[1] ~= nil
  return (reported or fleet.suspended(object)) and not fleet.is(object, "Failed")
end

-- Returns the counters of each role, without zeros, because the API's types omit them; nil if there are none.
local function sum_roles(items)
  local totals
  for member in statuses(items) do
    for role, one in pairs(fleet.members(member, "replicaStatuses")) do
      for _, name in ipairs({ "active", "succeeded", "failed" }) do
        if count(one, name) > 0 then
          totals = totals or {}
          totals[role] = totals[role] or {}
          totals[role][name] = count(totals[role], name) + count(one, name)
        end
      end
    end
  end
  return totals
end

-- Returns the clusters in which the condition of a type has a status, and a condition with the latest times of these.
local function find_latest(items, kind, status)
  local clusters, made = {}, { type = kind }
  for member, cluster in statuses(items) do
    local one = condition({ status = member }, kind)
    if get(one, "status") == status then
      clusters[#clusters + 1] = cluster
      for _, name in ipairs({ "lastTransitionTime", "lastUpdateTime" }) do
        if text(one, name) > text(made, name) then made[name] = one[name] end
      end
    end
  end
  return clusters, made
end

-- Aggregates the status of a job. The status of a single cluster is the status of the template. Otherwise a condition is True
-- if it is True in one cluster, but Succeeded only if in all clusters, and Suspended only if nothing runs or has failed.
-- A finished job no longer runs. The state is the last condition, because kubectl prints that one.
function fleet.aggregate_training(template, items)
  local all, name = type(items) == "table" and #items or 0, template.kind or "Job"
  local first = statuses(items)()
  if first == nil then return template end
  if fleet.set_only(template, items) then return template end
  local status, list = fleet.status(template), {}
  local function add(kind, message, stopped)
    local clusters, made = find_latest(items, kind, "True")
    if stopped and #clusters == 0 then clusters, made = find_latest(items, kind, "False") end
    if #clusters == 0 then return end
    made.status, made.reason, made.message = stopped and "False" or "True", name .. kind, name .. message
    if kind == "Failed" then made.message = made.message .. table.concat(clusters, ", ") end
    list[#list + 1] = made
  end
  local failed = #find_latest(items, "Failed", "True") > 0
  local done = #find_latest(items, "Succeeded", "True") == all
  add("Created", " is created.")
  if failed or done then
    add("Running", " is running.", true)
    if failed then
      add("Failed", " executed failed in member clusters: ")
    else
      add("Succeeded", " is successfully completed.")
    end
  else
    local before = #list
    add("Restarting", " is restarting.")
    add("Running", " is running.")
    if #list == before then add("Suspended", " is suspended.") end
  end
  status.conditions = list[1] and list
  status.replicaStatuses = sum_roles(items)
  status.startTime = fleet.earliest(items, "startTime")
  status.completionTime = done and not failed and fleet.latest(items, "completionTime") or nil
  status.lastReconcileTime = fleet.latest(items, "lastReconcileTime")
  return template
end

-- Returns the worst value of a member over the clusters, by a list from the best to the worst value; nil if no cluster has
-- one. A value that is not in the list is worse than all others. `missing` is the value of clusters without the member.
function fleet.worst(items, name, order, missing)
  local ranks, found, rank = {}, nil, 0
  for i, value in ipairs(order) do ranks[value] = i end
  for _, item in ipairs(type(items) == "table" and items or {}) do
    local value = get(item, "status", name)
    if value == nil then value = missing end
    if value ~= nil then
      local r = ranks[value] or #order + 1
      if r > rank then found, rank = value, r end
    end
  end
  return found
end

local TIMES = {
  earliest = function(a, b) return a < b end,
  latest = function(a, b) return a > b end,
}

local combine

-- Returns the entries of two lists; those with the same name are one.
local function combine_named(known, value, rules)
  local list, at = {}, {}
  for _, entries in ipairs({ known, value }) do
    for _, one in ipairs(entries) do
      local i = at[one.name or ""] or #list + 1
      list[i], at[one.name or ""] = list[i] and combine("", list[i], one, rules) or one, i
    end
  end
  return list
end

-- Returns the value of a member for two clusters, by the rules of `aggregate`.
function combine(name, known, value, rules)
  if type(known) ~= type(value) then return known end
  if type(value) == "number" then return rules.sum[name] and known + value or known end
  if type(value) == "table" then
    if rules.named[name] then return combine_named(known, value, rules) end
    if #known > 0 or #value > 0 then return known end
    local combined = {}
    for member, one in pairs(known) do combined[member] = one end
    for member, one in pairs(value) do
      if known[member] ~= nil then one = combine(member, known[member], one, rules) end
      combined[member] = one
    end
    return next(combined) and combined or known
  end
  if rules.worst[name] then
    return fleet.worst({ { status = { known } }, { status = { value } } }, 1, rules.worst[name])
  end
  return rules.before[name] and rules.before[name](value, known) and value or known
end

-- Sets the template's status, which stays while no cluster has one. Members have the value of the first cluster that reports
-- them, except those in `rules`: `sum`, `latest`, `earliest` (lists of names), `named` (names of lists, which have one entry for
-- each name) and `worst` (lists of values from best to worst, by name). The names apply at any depth. Conditions are those of
-- `conditions`, where `bad` is a list of types. `missing` has the values of members of the status that a cluster does not
-- report, if another one does.
function fleet.aggregate(template, items, rules)
  if statuses(items)() == nil then return template end
  local set = { sum = {}, worst = rules.worst or {}, before = {}, bad = {}, named = {} }
  for _, name in ipairs(rules.named or {}) do set.named[name] = true end
  for _, name in ipairs(rules.sum or {}) do set.sum[name] = true end
  for _, kind in ipairs(rules.bad or {}) do set.bad[kind] = true end
  for member, before in pairs(TIMES) do
    for _, name in ipairs(rules[member] or {}) do set.before[name] = before end
  end
  local status, types = {}, fleet.all_types(items)
  for member in statuses(items) do
    for name, value in pairs(member) do
      if status[name] ~= nil then value = combine(name, status[name], value, set) end
      status[name] = value
    end
  end
  for name, value in pairs(rules.missing or {}) do
    for _, item in ipairs(items or {}) do
      local reported = status[name] == nil or get(item, "status", name) ~= nil
      if not reported then status[name] = combine(name, status[name], value, set) end
    end
  end
  local observed, known = status.observedGeneration ~= nil, template.status
  status.generation, status.resourceTemplateGeneration = nil, nil
  status.observedGeneration = get(template, "status", "observedGeneration")
  template.status = status
  if #types > 0 then fleet.conditions(template, items, types, set.bad) end
  if observed then fleet.generation(template, items) end
  -- Definitions such as those of Cluster API refuse 0.
  if status.observedGeneration == 0 then status.observedGeneration = nil end
  if next(status) == nil then template.status = known end
  return template
end

-- Returns the value of a member that comes before the values of all other clusters.
local function foremost(items, name, before)
  local found
  for member in statuses(items) do
    local value = member[name]
    if type(value) == "string" and (found == nil or before(value, found)) then found = value end
  end
  return found
end

-- Returns the latest (or earliest) time of a member over the clusters, nil if no cluster has one.
function fleet.latest(items, name)
  return foremost(items, name, TIMES.latest)
end
function fleet.earliest(items, name)
  return foremost(items, name, TIMES.earliest)
end

-- Retains a member of the observed object: fleet.keep(desired, observed, "spec", "replicas").
function fleet.keep(desired, observed, ...)
  local value = get(observed, ...)
  if value == nil then return desired end
  local names, object = { ... }, desired
  for i = 1, #names - 1 do
    if type(object[names[i]]) ~= "table" then object[names[i]] = {} end
    object = object[names[i]]
  end
  object[names[#names]] = value
  return desired
end

-- Retains a member of the observed object if the desired object does not set it.
function fleet.keep_unset(desired, observed, ...)
  if get(desired, ...) ~= nil then return desired end
  return fleet.keep(desired, observed, ...)
end

-- Returns the objects of a list by their names, or those in their metadata.
function fleet.by_name(list)
  local found = {}
  for _, one in ipairs(list) do found[one.name or get(one, "metadata", "name") or ""] = one end
  return found
end

-- Returns whether the object has an annotation or label (`member` is "annotations" or "labels") after the update. Karmada keeps
-- those of the observed object, except those that were removed from the template, which an annotation lists.
function fleet.is_marked(desired, observed, member, name)
  if get(desired, "metadata", member, name) ~= nil then return true end
  if get(observed, "metadata", member, name) == nil then return false end
  local managed = text(observed, "metadata", "annotations", "resourcetemplate.karmada.io/managed-" .. member)
  return not string.find("," .. managed .. ",", "," .. name .. ",", 1, true)
end

-- Retains a member, such as spec.suspend, of an object in a queue of Kueue, which suspends and starts the objects of its
-- queues in the member cluster. Returns whether there is a queue.
function fleet.keep_queued(desired, observed, ...)
  if not fleet.is_marked(desired, observed, "labels", "kueue.x-k8s.io/queue-name") then return false end
  fleet.keep(desired, observed, ...)
  return true
end

-- Retains the annotations and labels of the observed object whose names have one of the prefixes.
function fleet.keep_marks(desired, observed, ...)
  for _, member in ipairs({ "annotations", "labels" }) do
    for name, value in pairs(fleet.members(observed, "metadata", member)) do
      for _, prefix in ipairs({ ... }) do
        if string.sub(name, 1, #prefix) == prefix and get(desired, "metadata", member, name) == nil then
          fleet.keep(desired, observed, "metadata", member, name)
        end
      end
    end
  end
  return desired
end

-- Members that name objects, by the ends of their names: strings, lists of strings, and objects with a name.
local NAMES = {
  secretName = "Secret", SecretName = "Secret", configMapName = "ConfigMap", ConfigMapName = "ConfigMap",
  claimName = "PersistentVolumeClaim", serviceAccountName = "ServiceAccount",
}
local LISTS = { secrets = "Secret", imagePullSecrets = "Secret", configMaps = "ConfigMap" }
local REFERENCES = {}
for _, ending in ipairs({ "", "s", "Ref", "Refs", "KeyRef", "Reference", "Selector" }) do
  for word, kind in pairs({ ecret = "Secret", onfigMap = "ConfigMap" }) do REFERENCES[word .. ending] = kind end
end

-- Returns the kind for the longest ending of a member's name that a table has.
local function find_reference(member, kinds)
  for i = 1, #member do
    local kind = kinds[string.sub(member, i)]
    if kind ~= nil then return kind end
  end
end

-- Returns the requirements of Pods by a part of a spec: its resources, those of its sidecars, and its scheduling members.
function fleet.requirements(part)
  local pod = fleet.pick(part, "nodeSelector", "tolerations", "affinity", "priorityClassName", "initContainers")
  -- Percona's affinity is a name of a topology, or `advanced`.
  pod.affinity = get(part, "affinity", "advanced") or pod.affinity
  pod.containers = { { resources = get(part, "resources") } }
  for i, sidecar in ipairs(objects(part, "sidecars")) do pod.containers[i + 1] = { resources = sidecar.resources } end
  return require("kube").accuratePodRequirements({ spec = pod })
end

-- Returns the requirements of Pods of a Pod spec (nil if none) with one more container, which has the given resources.
function fleet.pod_requirements(spec, resources)
  local part = fleet.pick(spec, "nodeSelector", "tolerations", "affinity", "priorityClassName", "initContainers")
  part.resources, part.sidecars = resources, get(spec, "containers")
  return fleet.requirements(part)
end

-- Returns a collector of components: add(name, replicas, part) adds the Pods of a part, see `requirements`, unless it is nil
-- or has enabled: false; found() returns the list. A paused object has no Pods.
function fleet.components(paused)
  local list = {}
  return {
    add = function(name, replicas, part)
      if type(part) ~= "table" or part.enabled == false then return end
      list[#list + 1] = {
        name = name,
        replicas = paused and 0 or tonumber(replicas) or 0,
        replicaRequirements = fleet.requirements(part),
      }
    end,
    found = function() return list end,
  }
end

-- Returns a collector of dependencies: add(apiVersion, kind, name[, namespace]) ignores empty names and duplicates; found()
-- returns the list.
function fleet.dependencies(object)
  local list, seen = {}, {}
  local own = type(get(object, "metadata", "namespace")) == "string" and object.metadata.namespace or nil
  local collector = {}
  function collector.add(apiVersion, kind, name, namespace)
    if type(apiVersion) ~= "string" or type(kind) ~= "string" or type(name) ~= "string" or name == "" then return end
    if type(namespace) ~= "string" then namespace = own end
    local key = table.concat({ apiVersion, kind, namespace or "", name }, "\0")
    if seen[key] then return end
    seen[key] = true
    list[#list + 1] = { apiVersion = apiVersion, kind = kind, namespace = namespace, name = name }
  end
  function collector.secret(name, namespace) collector.add("v1", "Secret", name, namespace) end
  function collector.config_map(name, namespace) collector.add("v1", "ConfigMap", name, namespace) end
  -- Adds the dependencies of the Pods of a template.
  function collector.template(template)
    if type(template) ~= "table" or next(template) == nil then return end
    for _, one in ipairs(require("kube").getPodDependencies(template, own)) do
      collector.add(one.apiVersion, one.kind, one.name, one.namespace)
    end
  end
  -- Adds the objects that members of a value name, at any depth: {secretName}, {configMapName}, {claimName},
  -- {serviceAccountName}, {xSecretRef: {name}}, {configMaps: [name]}, {kind: Secret, name}, {name, key}. The strings of
  -- further named members are Secrets.
  function collector.references(value, ...)
    local secrets = {}
    for _, name in ipairs({ ... }) do secrets[name] = true end
    local function add(kind, name, namespace)
      if type(namespace) ~= "string" then namespace = nil end
      if kind ~= nil then collector.add("v1", kind, name, namespace) end
    end
    local function walk(one, parent)
      if type(one) == "string" then
        return add(one ~= "default" and find_reference(parent, NAMES) or secrets[parent] and "Secret", one)
      elseif type(one) ~= "table" then
        return
      end
      if type(one.name) == "string" then
        local kind = find_reference(parent, REFERENCES) or type(one.key) == "string" and one.value == nil and "Secret"
        if type(one.kind) == "string" then kind = (one.kind == "Secret" or one.kind == "ConfigMap") and one.kind end
        add(kind or nil, one.name, one.namespace)
      end
      for member, inner in pairs(one) do
        if type(member) == "number" and type(inner) == "string" then
          add(find_reference(parent, LISTS), inner)
        else
          walk(inner, type(member) == "string" and member or parent)
        end
      end
    end
    walk(value, "")
  end
  function collector.found() return list end
  return collector
end

return fleet
