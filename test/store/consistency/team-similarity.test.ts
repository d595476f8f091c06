import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Team, teamSimilarity } from '../../../store/evaluate/consistency/team-similarity.ts';

const team = (roles: Readonly<Record<string, string>>, edges: Team['edges'] = []): Team => ({
  agents: Object.entries(roles).map(([name, role]) => ({ name, role, prompt: `You are ${name}.` })),
  edges,
});

describe('Two teams', () => {
  it('are as near as their roles and their wiring, whatever their agents are called', () => {
    const a = team({ ann: 'planner', bob: 'coder', cid: 'coder' }, [
      ['ann', 'bob'],
      ['ann', 'cid'],
    ]);
    const b = team({ x: 'Coder', y: ' planner ', z: 'verifier' }, [
      ['y', 'x'],
      ['x', 'z'],
    ]);
    // Roles: planner and one coder of planner, two coders, verifier. Wires: one planner → coder of two, and coder → verifier.
    expect(teamSimilarity(a, b)).toEqual({ score: (2 / 4 + 1 / 3) / 2, roles: 2 / 4, wiring: 1 / 3, reason: null });
    expect(teamSimilarity(a, b, { roles: 3, wiring: 1 }).score).toBeCloseTo((3 * (2 / 4) + 1 / 3) / 4);
    expect(teamSimilarity(a, b, { roles: 0, wiring: 1 }).score).toBeCloseTo(1 / 3);
  });

  it('differ by the direction of an edge, and an edge may name roles or who is no agent', () => {
    const roles = { ann: 'planner', bob: 'coder' };
    expect(teamSimilarity(team(roles, [['ann', 'bob']]), team(roles, [['bob', 'ann']])).wiring).toBe(0);
    expect(teamSimilarity(team(roles, [['ann', 'bob']]), team(roles, [['planner', 'coder']])).wiring).toBe(1);
    expect(teamSimilarity(team(roles, [['user', 'ann']]), team(roles, [['user', 'bob']])).wiring).toBe(0);
  });

  it('without wiring are as near as their roles; unknown agents give no value', () => {
    const a = team({ ann: 'planner' });
    expect(teamSimilarity(a, a)).toEqual({ score: 1, roles: 1, wiring: null, reason: 'no_wiring' });
    expect(teamSimilarity({ ...a, edges: null }, team({ b: 'planner' }, [['b', 'b']]))).toMatchObject({ score: 1 });
    expect(teamSimilarity(a, { agents: null, edges: [] })).toEqual({
      score: null,
      roles: null,
      wiring: null,
      reason: 'no_agents',
    });
    expect(teamSimilarity(a, a, { roles: 0, wiring: 1 })).toMatchObject({ score: null, reason: 'no_wiring' });
  });

  it('whose agents have no role are compared by name, as a team of one is recorded', () => {
    const alone = (name: string): Team => ({ agents: [{ name }], edges: null });
    expect(teamSimilarity(alone('assistant'), alone('assistant')).score).toBe(1);
    expect(teamSimilarity(alone('assistant'), alone('critic')).score).toBe(0);
  });

  const teams = fc
    .record({
      roles: fc.array(fc.constantFrom('planner', 'coder', 'critic', 'verifier'), { minLength: 1, maxLength: 6 }),
      edges: fc.array(fc.tuple(fc.nat(5), fc.nat(5)), { maxLength: 8 }),
    })
    .map(
      ({ roles, edges }) =>
        (prefix: string): Team => ({
          agents: roles.map((role, i) => ({ name: `${prefix}${i}`, role })),
          edges: edges.map(([from, to]) => [`${prefix}${from % roles.length}`, `${prefix}${to % roles.length}`]),
        }),
    );

  it('have one similarity in both directions, from 0 to 1, 1 for the same content, and the same after renaming agents', () => {
    fc.assert(
      fc.property(teams, teams, fc.nat(5), fc.integer({ min: 1, max: 5 }), (a, b, wiring, roles) => {
        const weights = { roles, wiring };
        const { score } = teamSimilarity(a('a'), b('b'), weights);
        expect(score).toBeGreaterThanOrEqual(0);
        expect(score).toBeLessThanOrEqual(1);
        expect(teamSimilarity(b('b'), a('a'), weights).score).toBe(score);
        expect(teamSimilarity(a('x'), b('y'), weights).score).toBe(score);
        expect(teamSimilarity(a('a'), a('z'), weights).score).toBe(1);
      }),
    );
  });
});
