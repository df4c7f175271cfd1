-- expect: output memory
function F()
  local t = {}
  for i = 1, 60 do t = {t, t} end
  return require('kube').accuratePodRequirements({spec = {volumes = t}})
end
