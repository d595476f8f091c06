/** Counts what a dataset's turns hold and a layout does not. */
import type { Counter } from './counter.ts';
import type { HeldTurn, LayoutTurn } from './turn.ts';

/** Adds, for each thing that `holds` lacks, in how many rows it is. */
export function countNotHeld(turns: readonly LayoutTurn[], holds: ReadonlySet<HeldTurn>, notHeld: Counter): void {
  for (const turn of turns) {
    const messages = [...(turn.prompt ?? []), ...(turn.answer === null ? [] : [turn.answer])];
    const there: Readonly<Record<HeldTurn, boolean>> = {
      'names of speakers': messages.some(({ name }) => name !== null),
      reasoning: messages.some(({ reasoning }) => reasoning !== null),
      'tool calls': messages.some(({ calls }) => calls.length > 0),
      'ids of tool calls': messages.some(({ calls, callId }) => callId !== null || calls.some(({ id }) => id !== null)),
      'tool definitions': turn.tools !== null,
      'token ids': turn.tokens !== null,
      'log-probabilities': turn.tokens?.logprobs != null,
      reward: turn.reward !== null,
      advantage: turn.advantage !== null,
      weight: turn.weight !== null,
      'ground truth': turn.ground_truth !== null,
      'step ids': true,
    };
    for (const [what, is] of Object.entries(there)) if (is && !holds.has(what as HeldTurn)) notHeld.add(what);
    for (const type of new Set(messages.flatMap(({ media }) => media))) notHeld.add(`parts of type ${type}`);
    for (const name of new Set(messages.flatMap(({ others }) => others))) notHeld.add(`member ${name} of messages`);
    if (messages.some(({ borders }) => borders > 0)) notHeld.add('borders between text parts');
  }
}
