-- require("fleet"), part 3: keeps members of observed objects, and lists requirements and dependencies.

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
