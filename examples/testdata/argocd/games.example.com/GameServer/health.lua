hs = {}

function find(kind)
  for _, condition in ipairs(obj.status.conditions or {}) do
    if condition.type == kind and condition.status == "True" then
      return condition
    end
  end
end

if obj.spec.paused then
  hs.status = "Suspended"
  return hs
end

if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  hs.status = "Progressing"
  hs.message = "generation " .. obj.metadata.generation .. " is not observed"
  return hs
end

local failed = find("Failed")
if failed ~= nil then
  hs.status = "Degraded"
  hs.message = failed.message
elseif find("Ready") ~= nil then
  hs.status = "Healthy"
else
  hs.status = "Progressing"
end
return hs
