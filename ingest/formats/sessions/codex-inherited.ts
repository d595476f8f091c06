/**
 * What the rollout of a thread has of another thread: one that was spawned or forked with its history begins with lines of that thread,
 * written again at the time of the copy. Versions up to 2025 copy every line; later ones leave out calls, results, reasoning and every
 * answer that is not final, but keep events, with the usage of calls that are not there (openai/codex,
 * codex-rs/core/src/agent/control/spawn.rs, commits 0ae3083 and 37a985e).
 */
import { isRecord } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { timeOfText } from '../kit/run.ts';
import { isAnswer, type Line } from './codex-items.ts';

/**
 * How many of these lines the thread inherited; the rest is its own. Turns are named by the time they began (UUID version 7), so a turn
 * from before the thread is inherited. Without such names, what a model or a tool said before anything could be asked is.
 */
export function inheritedLines(meta: Line, lines: readonly Line[], isSpawned: boolean): number {
  const { id, forked_from_id: forked } = meta.payload;
  const others = lines.filter(({ type, payload }) => type === 'session_meta' && payload.id !== id);
  if (!isSpawned && !isIdentifier(forked) && others.length === 0) return 0;
  const began = clockOf(id);
  const turns = lines.flatMap((line, at) => {
    const clock = clockOf(turnOf(line));
    return clock === null ? [] : [{ at, clock }];
  });
  if (began !== null && turns.some(({ clock }) => clock !== began)) {
    const own = turns.find(({ clock }) => clock >= began);
    const copied = turns.some(({ clock }) => clock < began) || others.length > 0;
    return copied ? (own?.at ?? lines.length) : 0;
  }
  return copiedAtOnce(meta, lines, others.length > 0);
}

/** Milliseconds between a line of a copy and the next; no model answers as fast. */
const COPY_GAP = 20;

/** The lines up to the last one of a model or a tool that stands where only a copy can have put it. */
function copiedAtOnce(meta: Line, lines: readonly Line[], hasOther: boolean): number {
  const start = millisecondsOf(meta);
  if (start === null) return 0;
  let [last, inherited] = [start, 0];
  for (const [at, line] of lines.entries()) {
    const time = millisecondsOf(line) ?? last;
    if (time - (hasOther ? last : start) > COPY_GAP) break;
    last = Math.max(last, time);
    const { type, payload } = line;
    const isOther = type === 'session_meta' && payload.id !== meta.payload.id;
    if (isOther || isSaid(line) || isUsage(line)) inherited = at + 1;
  }
  // A thread that says nothing of its own is one whose times say nothing, unless the lines of another name it.
  return hasOther || lines.slice(inherited).some(isSaid) ? inherited : 0;
}

const isSaid = ({ type, payload }: Line): boolean =>
  type === 'response_item' && (isAnswer(payload) || /_output$/.test(payload.type as string));

const isUsage = ({ type, payload }: Line): boolean =>
  type === 'token_usage_record' || (type === 'event_msg' && payload.type === 'token_count' && isRecord(payload.info));

/** The turn that begins with this line, or goes on. */
function turnOf({ type, payload }: Line): unknown {
  const begins = type === 'turn_context' || (type === 'event_msg' && payload.type === 'task_started');
  return begins ? payload.turn_id : undefined;
}

/** The milliseconds in a UUID of version 7; null for any other name. */
function clockOf(id: unknown): number | null {
  const found = typeof id === 'string' ? /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-/.exec(id) : null;
  return found ? Number.parseInt(`${found[1]}${found[2]}`, 16) : null;
}

function millisecondsOf({ timestamp }: { readonly timestamp: unknown }): number | null {
  const time = timeOfText(timestamp);
  return time === null ? null : Date.parse(time);
}
