/**
 * Events as a team records them, about 1 KiB each: episodes of three agents that call their model, use a tool and send messages to each
 * other, several at a time, so that a batch of the log holds pieces of many. The same numbers give the same events.
 */
import { decodeDraft } from '../ingest/events/decode.ts';
import type { Draft, Event, EventData, EventName } from '../ingest/events/events.ts';

/** Episodes that go on at the same time. */
const AT_ONCE = 32;
const TURNS = 6;
const GROUP = 8;
const AGENTS = ['planner', 'coder', 'critic'] as const;

/** Text of about so many characters that differs from place to place. */
const prose = (characters: number, seed: number): string => {
  let text = '';
  for (let n = seed; text.length < characters; n += 7) text += `${WORDS[n % WORDS.length]} ${n % 97} `;
  return text.slice(0, characters);
};
const WORDS = 'the sum of both sides is even so we look at remainders and find that no other case is left'.split(' ');

/** The first `count` events of such a team, in the order of their log, `AT_ONCE` episodes at a time. */
export function* teamEvents(count: number): Generator<Event, void, undefined> {
  let left = count;
  for (let first = 0; ; first += AT_ONCE) {
    const episodes = Array.from({ length: AT_ONCE }, (_, i) => episodeEvents(first + i));
    for (let n = 0; n < episodes[0]!.length; n++) {
      for (const events of episodes) {
        if (left-- === 0) return;
        yield decoded(events[n]!);
      }
    }
  }
}

function decoded(draft: Draft): Event {
  const { event, refusal } = decodeDraft(draft);
  if (refusal) throw new Error(`A made-up event was refused: ${JSON.stringify(refusal)}`);
  return event;
}

function episodeEvents(e: number): Draft[] {
  const drafts: Draft[] = [];
  const episode_id = `episode-${String(e).padStart(7, '0')}`;
  const task_id = `task-${Math.floor(e / GROUP)}`;
  const say = <N extends EventName>(name: N, data: EventData<N>): void => {
    const n = drafts.length;
    const time = new Date(Date.UTC(2026, 8, 1) + e * 10_000 + n * 250).toISOString();
    drafts.push({ name, source: '/bench', id: `${episode_id}/${n}`, time, data } as unknown as Draft);
  };
  const query = prose(900, Math.floor(e / GROUP));
  const system = prose(500, 3);
  say('task.defined', { task_id, query, ground_truth: String(e % 100), domain: 'sums' });
  say('episode.started', { episode_id, task_id, group_id: `group-${Math.floor(e / GROUP)}`, tags: { of: 'bench' } });
  for (const role of AGENTS)
    say('agent.defined', { episode_id, agent_id: role, role, model: 'm-1', system_instructions: prose(700, 11) });
  let before = query;
  for (let turn = 0; turn < TURNS; turn++) {
    const agent_id = AGENTS[turn % AGENTS.length]!;
    const call_id = `${episode_id}-${turn}`;
    const input = [
      { role: 'system', content: system },
      { role: 'user', content: before },
    ];
    say('generation.requested', { episode_id, call_id, agent_id, turn, model: 'm-1', input, params: { top_p: 1 } });
    before = prose(900, e * 31 + turn);
    const usage = { input_tokens: 350, output_tokens: 220 };
    const choices = [{ index: 0, content: before, finish_reason: 'stop', chosen: true }];
    say('generation.completed', { episode_id, call_id, agent_id, turn, choices, usage, latency_ms: 812.5 });
    const tool_call_id = `${call_id}-tool`;
    say('tool.called', { episode_id, tool_call_id, call_id, name: 'run', arguments: { code: prose(450, e + turn) } });
    say('tool.returned', { episode_id, tool_call_id, status: 'ok', output: prose(900, e * 7 + turn), duration_ms: 31 });
    const message_id = `${call_id}-said`;
    say('message.sent', { episode_id, message_id, from: agent_id, role: 'assistant', content: before, turn, call_id });
  }
  say('episode.finished', { episode_id, outcome: 'success', answer: String(e % 100) });
  const target = { kind: 'episode' as const, episode_id };
  say('feedback.recorded', { feedback_id: `${episode_id}-r`, target, kind: 'reward', name: 'reward', value: e % 2 });
  return drafts;
}
