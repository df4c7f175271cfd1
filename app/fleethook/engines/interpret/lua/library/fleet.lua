-- require("fleet"), part 2: reports the status of an object, and aggregates the statuses of many clusters.

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
