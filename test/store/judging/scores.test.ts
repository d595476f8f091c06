import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METHODS } from '../../../store/methods/find.ts';
import { event } from '../support/events.ts';
import { say } from './support/episodes.ts';
import { answer, grouped, type JudgedDatabase, judgedDatabase } from './support/judged.ts';
import {
  aTask,
  expectSaid,
  expectVaried,
  numberTold,
  randomStories,
  type Story,
  storiesIn,
  type Wanted,
} from './support/stories.ts';

const BY_HAND = ['star_agents_evolve', 'trust_update'];
const names = METHODS.filter(({ kind, name }) => kind === 'score' && !BY_HAND.includes(name)).map(({ name }) => name);
const onward = (story: Story) => story.steps.filter((step) => step.onward);
const words = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
const answerOf = (story: Story): string | null => {
  const last = onward(story).at(-1);
  return story.answer ?? (last ? answer<string | null>('boxed_answer', { text: last.text ?? '' }) : null);
};
type Row = readonly [number | null, string | null];
const each = (stories: readonly Story[], of: (story: Story) => Row): Wanted =>
  Object.fromEntries(stories.map((story) => [`e/${story.episode_id}`, of(story)]));
const eachGroup = (stories: readonly Story[], of: (own: Story[]) => Row): Wanted =>
  Object.fromEntries([...grouped(stories, (s) => s.group)].map(([group, own]) => [`g/${group}`, of(own)]));
const asNumber = (text: string): Row => (/^\d+$/.test(text) ? [Number(text), null] : [null, 'not_a_number']);

describe('scores that the judge computes from what is stored', () => {
  let base: JudgedDatabase;
  let stories: Story[];
  beforeAll(async () => {
    base = await judgedDatabase();
    await base.load(randomStories(11));
    stories = await storiesIn(base);
    await base.run(names);
  });
  afterAll(() => base.close());

  it('are all of the catalogue, but for two whose state no episode holds', () => {
    for (const method of METHODS.filter(({ kind }) => kind === 'score'))
      expect(method.judged !== undefined, method.name).toBe(!BY_HAND.includes(method.name));
  });

  it('reads the box of the last message, as a number where it is one', async () => {
    const wanted = each(stories, (story) => {
      const last = onward(story).at(-1);
      if (last === undefined) return [null, 'no_messages'];
      if (last.text === null) return [null, 'no_text'];
      const box = answer<string | null>('boxed_answer', { text: last.text });
      return box === null ? [null, 'no_boxed_answer'] : asNumber(box);
    });
    expectVaried(await expectSaid(base, 'scores', 'boxed_answer', wanted), 42, null);
    const texts = await base.rows<{ text: string }>(
      `select distinct detail ->> 'text' as text from traj.scores where method = 'boxed_answer' and reason = 'not_a_number'`,
    );
    expect(texts.map((row) => row.text)).toContain('\\frac{1}{2}');
  });

  it('normalises the final answer', async () => {
    const wanted = each(stories, (story) => {
      const said = answerOf(story);
      return said === null ? [null, 'no_answer'] : asNumber(answer<string>('normalise_answer', { text: said }));
    });
    expectVaried(await expectSaid(base, 'scores', 'normalise_answer', wanted), 42, null);
  });

  it('counts spellings of one answer as one answer of the group', async () => {
    const one = (text: string, choices: boolean) =>
      text.includes('42')
        ? '42'
        : choices && text.startsWith('(B)')
          ? 'B'
          : answer<string>('normalise_answer', { text });
    const wanted = eachGroup(stories, (own) => {
      const answers = own.map((s) => (s.answer === null ? null : one(s.answer, 'choices' in s.task_tags)));
      if (answers.every((said) => said === null)) return [null, 'no_answers'];
      return [answer<{ score: number }>('agreement_score', { answers }).score, null];
    });
    await expectSaid(base, 'scores', 'agreement_score', wanted);
  });

  it('measures the overlap of words in lower case, without punctuation and articles', async () => {
    const plain = (text: string) =>
      text
        .toLowerCase()
        .replace(/[.$()\\{}]/g, '')
        .replace(/\b(the|a|an)\b/g, ' ')
        .trim();
    const wanted = each(stories, (story) => {
      if (story.ground_truth === null) return [null, 'no_reference'];
      const said = answerOf(story);
      if (said === null) return [null, 'no_answer'];
      return [answer<number>('token_f1', { pred: plain(said), gold: plain(words(story.ground_truth)) }), null];
    });
    expectVaried(await expectSaid(base, 'scores', 'token_f1', wanted), 0, 1, null);
  });

  it('says how far the rewards of a group spread, and of each agent in it', async () => {
    const spread = eachGroup(stories, (own) => {
      const rewards = own.map((s) => s.reward);
      const known = rewards.filter((reward) => reward !== null);
      if (known.length === 0) return [null, 'missing_reward'];
      const value = answer<number | null>('range_normalized_variance', { rewards });
      return [value, known.length === 1 ? 'group_of_one' : new Set(known).size === 1 ? 'zero_variance' : null];
    });
    await expectSaid(base, 'scores', 'range_normalized_variance', spread);
    const ratios = eachGroup(stories, (own) => {
      const steps = own.flatMap((s) =>
        s.steps.map(({ agent }) => ({ query: 'q', traj: s.episode_id, agent: agent ?? '', reward: s.reward })),
      );
      if (steps.length === 0) return [null, 'no_steps'];
      if (steps.every(({ reward }) => reward === null)) return [null, 'missing_reward'];
      const known = Object.values(answer<Record<string, number | null>>('drmas_scale_ratio', { steps })).filter(
        (one) => one !== null,
      );
      return known.length === 0 ? [null, 'zero_variance'] : [Math.max(...known), null];
    });
    await expectSaid(base, 'scores', 'drmas_scale_ratio', ratios);
    const [{ detail }] = (await base.rows<{ detail: Record<string, number> }>(
      `select detail from traj.scores where method = 'drmas_scale_ratio' and key = 'g/task 1'`,
    )) as [{ detail: Record<string, number> }];
    expect(Object.keys(detail).sort()).toEqual(expect.arrayContaining(['critic', 'critic 2', 'solver']));
  });

  it('counts what tools said wrong, and answer tags', async () => {
    const tools = each(stories, (story) => {
      const said = story.tools.flatMap(({ status, output, error }) => {
        if (status === null) return [];
        if (output !== null) return [words(output)];
        return [error !== null ? words(error) : status];
      });
      if (story.tools.length > 0 && said.length === 0) return [null, 'no_tool_responses'];
      return [answer<number>('roc_tool_penalty', { tool_responses: said }), null];
    });
    expectVaried(await expectSaid(base, 'scores', 'roc_tool_penalty', tools), 0.5, 0, 1, null);
    const tags = each(stories, (story) => {
      const said = onward(story);
      if (said.length === 0) return [null, 'no_steps'];
      const text = said.map((step) => step.text ?? '').join('\n');
      const input = {
        open_tags: text.split('<answer>').length - 1,
        close_tags: text.split('</answer>').length - 1,
        closed_pairs: [...text.matchAll(/<answer>(?:.|\n)*?<\/answer>/g)].length,
        turns: said.length,
      };
      return [answer<number>('roc_format_penalty', input), null];
    });
    expectVaried(await expectSaid(base, 'scores', 'roc_format_penalty', tags), 0, 1, null);
  });

  it('picks among the samples of a group by two models and a referee, the last that was said', async () => {
    const wanted: Record<string, Row> = {};
    const picks: string[] = [];
    for (const own of grouped(stories, (s) => s.group).values()) {
      const rows = own.map((s) => {
        const [small, large] = [numberTold(s, 'ifd_small'), numberTold(s, 'ifd_large')];
        const referee = s.told.findLast((one) => one.name === 'referee')?.value_json;
        const reason =
          small === null || large === null
            ? 'no_ifd'
            : referee === undefined || referee === 'somebody'
              ? 'no_referee'
              : null;
        return { id: s.episode_id, small, large, referee, reason };
      });
      const known = rows.filter((row) => row.reason === null);
      const output = answer<{ score: number[]; pick: number | null }>('star_agents_score', {
        ifd_small: known.map((row) => row.small),
        ifd_large: known.map((row) => row.large),
        referee: known.map((row) => row.referee),
      });
      for (const row of rows)
        wanted[`e/${row.id}`] = row.reason ? [null, row.reason] : [output.score[known.indexOf(row)]!, null];
      if (output.pick !== null) picks.push(known[output.pick]!.id);
    }
    expectVaried(await expectSaid(base, 'scores', 'star_agents_score', wanted), 0, null);
    const picked = await base.rows<{ episode_id: string }>(
      `select episode_id from traj.scores where method = 'star_agents_score' and detail ->> 'picked' = 'true'`,
    );
    expect(picked.map((row) => row.episode_id).sort()).toEqual(picks.sort());
  });

  it('follows the subgoals that were observed, and the milestones of each agent', async () => {
    const progress = each(stories, ({ observed }) => {
      const subgoals_done = observed.filter(({ kind }) => kind === 'progress').map(({ content }) => content);
      if (subgoals_done.length === 0) return [null, 'no_progress'];
      return [answer<number[]>('progress_rate', { subgoals_done }).at(-1)!, null];
    });
    expectVaried(await expectSaid(base, 'scores', 'progress_rate', progress), null, 1);
    const kpi = each(stories, (story) => {
      const seen = story.observed
        .filter(({ kind }) => kind === 'milestone')
        .map(({ content }) => content as { milestone: string; agents: string[] });
      const all = story.task_tags.milestones;
      const reached = new Set(seen.map((m) => m.milestone)).size;
      const milestones = Array.isArray(all) ? all.length : typeof all === 'number' ? all : reached;
      if (milestones === 0) return [null, 'no_milestones'];
      if (reached > milestones) return [null, 'more_milestones_than_announced'];
      const agents = [
        ...new Set([...story.steps.flatMap(({ agent }) => agent ?? []), ...seen.flatMap((m) => m.agents)]),
      ];
      if (agents.length === 0) return [null, 'no_agents'];
      const counts = agents.map(
        (agent) => new Set(seen.filter((m) => m.agents.includes(agent)).map((m) => m.milestone)).size,
      );
      return [answer<{ overall: number }>('milestone_kpi', { milestones, per_agent: counts }).overall, null];
    });
    const kpis = await expectSaid(base, 'scores', 'milestone_kpi', kpi);
    expect(kpis.some(({ reason }) => reason === 'more_milestones_than_announced')).toBe(true);
    expect(kpis.some(({ value }) => Number(value) > 0)).toBe(true);
  });

  it('says how far like tasks were given one team, once for all that are judged together', async () => {
    const clusters = [['task 0', 'task 1', 'task 4', 'task 5'], ['task 2', 'task 6'], ['task 3']];
    const pairs = new Set(stories.filter((s) => s.task_id && s.team_id).map((s) => `${s.task_id}|${s.team_id}`));
    const value = answer<number>('inter_consistency_score', {
      cluster: [...pairs].map((pair) => clusters.findIndex((names) => names.includes(pair.split('|')[0]!))),
      mas: [...pairs].map((pair) => pair.split('|')[1]!),
    });
    await expectSaid(base, 'scores', 'inter_consistency_score', { 's/queries': [value, null] });
  });

  it('finds how much a prompt helps from the last passes of one checkpoint, over the tokens that the model chose', async () => {
    const own = await judgedDatabase();
    try {
      const run = (id: string, token_ids: number[] | null, loss_mask: (0 | 1)[] | null = null) => [
        event('episode.started', { episode_id: id, task_id: 'task' }),
        event('generation.completed', {
          episode_id: id,
          call_id: 'c',
          choices: [{ index: 0, content: 'x', token_ids, loss_mask }],
        }),
        event('episode.finished', { episode_id: id, outcome: 'success' }),
      ];
      const pass = (id: string, label: string, value: number[], by = 'small', second = 30) =>
        say(id, { kind: 'step', id: 'c/0' }, 'token_logprobs', value, { by, label, second });
      await own.load(
        [aTask('task')],
        run('both', [1, 2, 3], [1, 0, 1]),
        [pass('both', 'reference', [-1, -9, -0.5]), pass('both', 'alone', [-2, -9, -1])],
        run('two models', [1]),
        [pass('two models', 'alone', [-1], 'large', 31), pass('two models', 'reference', [-3], 'large', 32)],
        [pass('two models', 'alone', [-2], 'small', 33), pass('two models', 'reference', [-1], 'small', 34)],
        run('other model', [1]),
        [pass('other model', 'alone', [-1], 'large'), pass('other model', 'reference', [-1], 'small')],
        run('not alone', [1]),
        [pass('not alone', 'reference', [-1])],
        run('too short', [1, 2]),
        [pass('too short', 'reference', [-1]), pass('too short', 'alone', [-1])],
        run('forced', [1], [0]),
        [pass('forced', 'reference', [-1]), pass('forced', 'alone', [-1])],
        run('no tokens', null),
        [
          event('episode.started', { episode_id: 'silent' }),
          event('episode.finished', { episode_id: 'silent', outcome: 'unknown' }),
        ],
      );
      await own.run(['ifd']);
      await expectSaid(own, 'scores', 'ifd', {
        'e/both': [answer('ifd', { cond_logprobs: [-1, -0.5], uncond_logprobs: [-2, -1] }), null],
        'e/two models': [answer('ifd', { cond_logprobs: [-1], uncond_logprobs: [-2] }), null],
        'e/other model': [null, 'no_reference_logprobs'],
        'e/not alone': [null, 'no_alone_logprobs'],
        'e/too short': [null, 'other_tokens'],
        'e/forced': [null, 'no_trained_tokens'],
        'e/no tokens': [null, 'no_token_ids'],
        'e/silent': [null, 'no_messages'],
      });
    } finally {
      await own.close();
    }
  });

  it('says the same when it is run again, and after a rebuild', async () => {
    const before = (await base.checksum()).tables.scores;
    await base.run(names);
    expect((await base.checksum()).tables.scores).toEqual(before);
    await base.rebuild();
    expect((await base.checksum()).tables.scores).toEqual(before);
  }, 60_000);
});
