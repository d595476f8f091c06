/**
 * Whether every message of a run thinks inside `<think>…</think>`, and answers inside `\boxed{…}` where it must.
 *
 * Source: the description of M500 in MAS-TTS. The rule is secondary; exactly one pair of tags and a non-blank thought are our
 * tightening, unverified. A box counts only after `</think>`, and only if it closes.
 * Kept: thoughts inside their tags, a box where an answer is asked for. Dropped: nothing. Open: exactly one pair, and
 * that a thought is not blank.
 */

import { Type } from 'typebox';
import { verdictOn } from '../../judging/judgement.ts';
import { messagesOf } from '../../judging/messages.ts';
import { hasBox } from '../boxed.ts';
import { method } from '../method.ts';

type Format = {
  readonly pass: boolean;
  /** Positions of the messages that break the rule, counted from 0. */
  readonly bad: readonly number[];
};

export const formatFilter = method({
  name: 'format_filter',
  kind: 'filter',
  source: 'M500: MAS-TTS, data description; rule secondary, exactly-once and non-blank unverified',
  version: 1,
  summary: 'Passes a run whose messages each have one thought, and a boxed answer where needed.',
  input: Type.Object({
    messages: Type.Array(Type.Object({ text: Type.String(), needs_box: Type.Optional(Type.Boolean()) })),
  }),
  run: ({ messages }): Format => {
    const bad = messages.flatMap(({ text, needs_box }, i) => (wellFormed(text, needs_box === true) ? [] : [i]));
    return { pass: bad.length === 0, bad };
  },
  judged: {
    reads: ['content'],
    /** The last message must box its answer. */
    rows: ({ episodes, steps, contentOf }, ask) => {
      const messages = messagesOf({ steps });
      return episodes.map((episode) => {
        const texts = (messages.get(episode.episode_id) ?? []).map((step) => contentOf(step).text ?? '');
        if (texts.length === 0) return verdictOn(episode, null, 'no_messages');
        const marked = texts.map((text, i) => ({ text, needs_box: i === texts.length - 1 }));
        const output = ask.run({ messages: marked });
        return verdictOn(episode, output.pass, output.pass ? null : 'bad_format', output);
      });
    },
  },
});

function wellFormed(text: string, needsBox: boolean): boolean {
  const open = onlyIndexOf(text, '<think>');
  const close = onlyIndexOf(text, '</think>');
  if (open < 0 || close < open) return false;
  if (text.slice(open + '<think>'.length, close).trim() === '') return false;
  return !needsBox || hasBox(text, close);
}

/** Where the token stands if it occurs exactly once, otherwise −1. */
function onlyIndexOf(text: string, token: string): number {
  const at = text.indexOf(token);
  return at === text.lastIndexOf(token) ? at : -1;
}
