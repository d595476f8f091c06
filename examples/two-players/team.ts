/**
 * Two players of a small game: from a pile each takes 1, 2 or 3 in turn, and who takes the last wins. A move that the rules do not
 * allow loses. One policy plays both sides; in a match a scripted player that moves at random takes the other side.
 *
 *   node --import tsx examples/two-players/team.ts --url http://127.0.0.1:7717 [--player policy:player]
 */
import { createRandom, seedOf } from '../lib/random.ts';
import { earned, type Play, runTeam } from '../lib/worker.ts';

type Game = {
  readonly task_id: string;
  readonly pile: number;
  /** Who the policy is in a match against the scripted player; without it the policy plays both. */
  readonly side?: Side;
};
type Side = 'first' | 'second';

const MOST = 3;

/** What is left of the pile, or null for a move that is not allowed. */
function move(pile: number, text: string): number | null {
  const taken = /^[1-9]$/.test(text) ? Number(text) : 0;
  return taken >= 1 && taken <= MOST && taken <= pile ? pile - taken : null;
}

/** In self-play the reward is 1 for a game without a forbidden move, in a match 1 if the policy wins. */
const play: Play<Game> = async ({ episode_id, task, seed }, { gateway, recorder, models }) => {
  const random = createRandom(seed);
  /** The last step of each side: it is what won or lost. */
  const last: { [side in Side]?: string } = {};
  let [pile, winner, broken] = [task.pile, null as Side | null, false];
  const moves: string[] = [];
  for (let turn = 0; winner === null; turn++) {
    const [side, other]: readonly [Side, Side] = turn % 2 === 0 ? ['first', 'second'] : ['second', 'first'];
    let text = String(1 + random.int(Math.min(MOST, pile)));
    if (task.side === undefined || task.side === side) {
      const messages = [{ role: 'user' as const, content: `pile ${pile} take` }];
      const call = { episode: episode_id, role: side, turn, model: models.player!, messages, n: 1, maxTokens: 2 };
      const [answer] = await gateway.ask({ ...call, temperature: 1, seed: seedOf(seed, turn) >>> 1 });
      text = answer!.text;
      // Each move but the last of a side earns nothing by itself.
      if (last[side] !== undefined) earned(recorder, episode_id, last[side], 0);
      last[side] = answer!.stepId;
    }
    moves.push(text);
    const left = move(pile, text);
    broken = left === null;
    if (broken) winner = other;
    else if (left === 0) winner = side;
    pile = left ?? pile;
  }
  for (const [side, step] of Object.entries(last)) earned(recorder, episode_id, step, side === winner ? 1 : -1);
  const won = task.side === undefined ? !broken : winner === task.side;
  return { reward: won ? 1 : 0, answer: `${moves.join(' ')}: ${winner}`, solved: won };
};

await runTeam<Game>({
  name: 'two players',
  source: '/examples/two-players',
  runner: 'players',
  agents: ['first', 'second'].map((side) => ({ name: side, role: side, prompt: 'pile N take' })),
  models: { player: 'policy:player' },
  play,
});
