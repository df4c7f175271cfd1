-- Limits of a call: instructions, time, memory. A hook looks every EVERY instructions. Once a limit is reached it raises at
-- every instruction, so that no pcall of the script's lives on.

local parts = ...

local late = parts.host.late
local sethook, getinfo, clock, memory = debug.sethook, debug.getinfo, os.clock, collectgarbage
local error, ipairs, sub = error, ipairs, string.sub

local LIMIT = {} -- raised when a limit is reached
local EVERY = 100 -- instructions
local LARGE = 2048 -- KiB more than there were, from which on single instructions may take long
local WORK_AT_ONCE = 65536 -- units of work after which the limits are looked at
local ticks, most_ticks, owed, due, soft, large, failed, tight, place
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

local function look(now)
  if ticks > most_ticks then
    failed = "instructions"
    return
  end
  local used = memory("count")
  if used > soft / 2 and not collecting then
    memory("restart")
    collecting = true
  end
  if used > soft then
    memory("collect")
    if memory("count") > soft then failed = "memory" end
  end
  if (now or used > large) and clock() > due then
    local more = late()
    if more then due = clock() + more else failed = "deadline" end
  end
end

local function tick()
  ticks = ticks + 1
  if not failed then
    look(ticks % 10 == 0)
    if not failed then return end
    place = user_place(3)
  elseif outside[getinfo(2, "f").func] then
    return sethook()
  end
  if not tight then
    tight = true
    sethook(tick, "", 1)
  end
  error(LIMIT, 0)
end

local limits = {}

-- Fail now if there is too much already: the host is not to be asked for more.
function limits.room()
  if memory("count") > soft then
    memory("collect")
    if memory("count") > soft then error("not enough memory", 0) end
  end
end

-- Count the work of a function of C, which no hook sees: bytes or elements that it goes through. 16 of them count as an
-- instruction.
function limits.work(units)
  owed = owed + units
  if owed < WORK_AT_ONCE then return end
  ticks = ticks + owed // (16 * EVERY)
  owed = 0
  if not failed then
    look(true)
    if not failed then return end
    place = user_place(3)
  end
  error(LIMIT, 0) -- the hook raises at every instruction once it sees it
end

-- What a call may take: ticks of the hook, seconds by the clock of the process, KiB.
function limits.begin(ticks_allowed, seconds, kib)
  local used = memory("count")
  ticks, most_ticks, owed, failed, tight, place = 0, ticks_allowed, 0, nil, false, nil
  due, soft, large = clock() + seconds, used + kib, used + LARGE
  memory("stop")
  collecting = false
end

function limits.watch() sethook(tick, "", EVERY) end

function limits.unwatch() sethook() end

-- Count values that were handled while nobody watched.
function limits.count(values) ticks = ticks + values // EVERY end

function limits.finish()
  sethook()
  if memory("count") > AT_MOST_LEFT then memory("collect") end
end

-- How many instructions the call has taken.
function limits.spent() return ticks * EVERY end

-- Which limit was reached, nil if none; where in the script, nil if that is not known.
function limits.reached() return failed, place end

-- Functions that calls are made by, and not part of: the hook leaves them alone.
function limits.are_outside(...)
  for _, f in ipairs({ ... }) do outside[f] = true end
end

limits.user_place = user_place

parts.limits = limits
