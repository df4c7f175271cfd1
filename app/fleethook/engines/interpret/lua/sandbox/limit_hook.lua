-- Limits of a call: instructions, time, memory. A hook checks them every EVERY instructions. After a limit is reached, the
-- hook raises at every instruction, so that no pcall of the script can continue.

local parts = ...

local late = parts.host.late
local sethook, getinfo, clock, memory = debug.sethook, debug.getinfo, os.clock, collectgarbage
local error, ipairs, sub = error, ipairs, string.sub

local LIMIT = {} -- the error of a reached limit
local EVERY = 100 -- instructions
local LARGE = 2048 -- additional KiB from which single instructions may take long
local WORK_AT_ONCE = 65536 -- units of work between two checks of the limits
local ticks, most_ticks, owed, due, soft, large, failed, tight, place
local base, most = 0, 0 -- KiB at the beginning of the call, and the most that a check found
local collecting = true -- the garbage collector is stopped at first, because most calls allocate little
local AT_MOST_LEFT = 8192 -- KiB
local outside = {} -- functions of the sandbox that make calls; the hook raises nothing in them

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
  if used > most then most = used end
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
  local reached_before = failed
  if not failed then
    look(ticks % 10 == 0)
    if not failed then return end
  end
  if outside[getinfo(2, "f").func] then -- the script has ended; nothing would catch an error
    failed = reached_before
    return sethook()
  end
  if not reached_before then place = user_place(3) end
  if not tight then
    tight = true
    sethook(tick, "", 1)
  end
  error(LIMIT, 0)
end

local limits = {}

-- Fails if the memory limit is exceeded, before the host sends more.
function limits.room()
  if memory("count") > soft then
    memory("collect")
    if memory("count") > soft then error("not enough memory", 0) end
  end
end

-- Counts the work of a C function, in which hooks do not run: the bytes or elements that it processes. 16 of them count as
-- an instruction.
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
  error(LIMIT, 0) -- from now on the hook raises at every instruction
end

-- Sets the limits of a call: ticks of the hook, seconds of the process clock, KiB.
function limits.begin(ticks_allowed, seconds, kib)
  local used = memory("count")
  ticks, most_ticks, owed, failed, tight, place = 0, ticks_allowed, 0, nil, false, nil
  due, soft, large = clock() + seconds, used + kib, used + LARGE
  base, most = used, used
  memory("stop")
  collecting = false
end

function limits.watch() sethook(tick, "", EVERY) end

function limits.unwatch() sethook() end

-- Counts values that were processed without the hook.
function limits.count(values) ticks = ticks + values // EVERY end

function limits.finish()
  sethook()
  local used = memory("count")
  if used > most then most = used end
  if used > AT_MOST_LEFT then memory("collect") end
end

-- Returns the instructions of the call, and the most KiB that it held at a check of the limits.
function limits.spent() return ticks * EVERY, most - base end

-- Returns the limit that was reached (nil if none) and its place in the script (nil if unknown).
function limits.reached() return failed, place end

-- Registers functions of the sandbox that make calls; the hook raises nothing in them.
function limits.are_outside(...)
  for _, f in ipairs({ ... }) do outside[f] = true end
end

limits.user_place = user_place

parts.limits = limits
