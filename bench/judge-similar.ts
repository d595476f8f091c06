/**
 * Grouping tasks whose texts are nearly the same: what a task costs among 100 k, against what it costs among 10 k. The texts are made
 * up, with families of near-duplicates planted among them, so that what is found can be compared with what is there.
 */
import { similarTasks, type TaskText } from '../store/evaluate/consistency/similar-tasks.ts';
import { type RandomStream, randomStream } from '../trainer/tensor/random.ts';
import type { Settings } from './bench.ts';
import { compared, interleave, type Result } from './harness.ts';
import { type Measured, summary } from './statistics.ts';

const SMALL = 10_000;
const LARGE = 100_000;
/** How often the small ones are grouped in a round: about three seconds' work. */
const TIMES = 3;
/** Words of the made-up language. */
const VOCABULARY = 4000;
/** Of ten tasks six stand alone and four are a family: a task, and three with a number, a name or a word of it changed. */
const FAMILY = 4;
const EVERY = 10;
/** Least share of planted pairs that must be found, and of found pairs that must be planted, for times to say anything. */
const LEAST = 0.98;

type Planted = {
  readonly tasks: readonly TaskText[] /** By task, the number of its family; null for one alone. */;
  readonly families: readonly (number | null)[];
};

/** One case for the bench `judge`. Ours is the rate among 100 k, other the rate among 10 k: above 0.67 is growth below 1.5. */
export async function similarCases({ rounds, say }: Settings): Promise<Result[]> {
  const [large, small] = [LARGE, SMALL].map((count) => plantedTasks(count, count)) as [Planted, Planted];
  similarTasks(small.tasks.slice(0, 2000));
  const found = new Map<Planted, Found>();
  const side = (name: string, planted: Planted, times: number) => ({
    name,
    round: async (): Promise<Measured> => {
      const [cpu, start] = [process.cpuUsage(), performance.now()];
      let placed = similarTasks(planted.tasks);
      for (let again = 1; again < times; again++) placed = similarTasks(planted.tasks);
      const seconds = (performance.now() - start) / 1000;
      const { user, system } = process.cpuUsage(cpu);
      if (!found.has(planted)) found.set(planted, judged(planted, placed));
      return { work: planted.tasks.length * times, seconds, cpuSeconds: (user + system) / 1e6 };
    },
  });
  const { measured, disturbed } = await interleave([side('100 k', large, 1), side('10 k', small, TIMES)], {
    rounds,
    onRound: (line) => say(`judge similar: ${line}`),
  });
  const [of100k, of10k] = [found.get(large)!, found.get(small)!];
  const outputs = [of100k, of10k].map(
    ({ recall, precision }, i) =>
      `${['100 k', '10 k'][i]}: ${(100 * recall).toFixed(2)} % of planted pairs found, ${(100 * precision).toFixed(2)} % of found pairs planted`,
  );
  const about = {
    case: 'similar tasks, 100 k over 10 k',
    unit: 'tasks/s',
    disturbed,
    more: {
      characters_per_task: Math.round(large.tasks.reduce((sum, { text }) => sum + text!.length, 0) / LARGE),
      clusters: of100k.clusters,
      // Processor time says the same where others use the machine too.
      growth_of_cpu: summary(measured[0]!.map((one, i) => cpuOf(one) / cpuOf(measured[1]![i]!))),
      peak_rss_mib: Math.round(process.resourceUsage().maxRSS / 1024),
    },
  };
  const equal = [of100k, of10k].every(({ recall, precision }) => recall >= LEAST && precision >= LEAST);
  return [
    compared(
      about,
      measured[0]!,
      { what: 'the same among 10 k tasks', measured: measured[1]! },
      { equal, how: outputs.join('; ') },
    ),
  ];
}

const cpuOf = ({ cpuSeconds, work }: Measured): number => cpuSeconds / work;

type Found = { readonly recall: number; readonly precision: number; readonly clusters: number };

/** Shares of pairs, counted by the sizes of clusters and families. */
function judged({ tasks, families }: Planted, placed: ReturnType<typeof similarTasks>): Found {
  const pairs = (keys: readonly (string | null)[]): number => {
    const sizes = new Map<string, number>();
    for (const key of keys) if (key !== null) sizes.set(key, (sizes.get(key) ?? 0) + 1);
    return [...sizes.values()].reduce((sum, size) => sum + (size * (size - 1)) / 2, 0);
  };
  const clusters = tasks.map(({ id }) => placed.get(id)!.cluster);
  const both = pairs(clusters.map((cluster, i) => (families[i] === null ? null : `${cluster} ${families[i]}`)));
  const planted = pairs(families.map((family) => (family === null ? null : String(family))));
  return { recall: both / planted, precision: both / pairs(clusters), clusters: new Set(clusters).size };
}

/** Word problems of 20 to 60 words with names and numbers, the same for the same seed, in an order that scatters families. */
function plantedTasks(count: number, seed: number): Planted {
  const random = randomStream(seed);
  const words = Array.from({ length: VOCABULARY }, () => aWord(random));
  const below = (most: number) => Math.floor(random.uniform() * most);
  // Words are as unevenly frequent as in real text: the squared draw makes the first ones common.
  const word = () => words[Math.floor(random.uniform() ** 2 * VOCABULARY)]!;
  const rows: { text: string[]; family: number | null }[] = [];
  while (rows.length < count) {
    const text = Array.from({ length: 20 + below(41) }, (_, i) => (i % 9 === 4 ? String(below(1000)) : word()));
    const family = rows.length % EVERY === 0 ? rows.length : null;
    rows.push({ text, family });
    for (let i = 1; family !== null && i < FAMILY; i++) {
      const near = [...text];
      near[below(near.length)] = i % 2 === 0 ? String(below(1000)) : word();
      rows.push({ text: near, family });
    }
  }
  for (let i = rows.length - 1; i > 0; i--) {
    const other = below(i + 1);
    [rows[i], rows[other]] = [rows[other]!, rows[i]!];
  }
  return {
    tasks: rows.slice(0, count).map(({ text }, i) => ({ id: `task-${i}`, text: `${text.join(' ')}?` })),
    families: rows.slice(0, count).map(({ family }) => family),
  };
}

const aWord = (random: RandomStream): string =>
  Array.from({ length: 2 + Math.floor(random.uniform() * 8) }, () =>
    String.fromCharCode(97 + Math.floor(random.uniform() * 26)),
  ).join('');
